//! Jobs of which the owner is not known.

use crate::common::{affected, cache, key, object, reconcile};
use kubegc_controllers::{CronJobHistory, Wire};
use kubegc_core::{
    KubernetesVersion, Timestamp,
    record::{Record, Resource},
};

#[test]
fn an_unreadable_job_may_belong_to_any_cron_job_of_its_namespace() {
    let old = CronJobHistory::new("1.20".parse().expect("a release in range"));
    for (controller, elsewhere) in [(CronJobHistory::new(KubernetesVersion::LATEST), 0), (old, 1)] {
        let objects = [
            "batch/v1 CronJob depot/cron metadata.uid=depot spec.successfulJobsHistoryLimit=1",
            "batch/v1 CronJob shop/cron spec.successfulJobsHistoryLimit=1",
            r#"batch/v1 Job shop/a owner:batch/v1/CronJob/cron status.conditions=[{"type":"Complete","status":"True"}]"#,
            r#"batch/v1 Job shop/b owner:batch/v1/CronJob/cron status.conditions=[{"type":"Complete","status":"True"}]"#,
            "batch/v1 Job shop/stray",
        ];
        let mut cache = cache(&controller, &objects.map(object));
        let stray = cache
            .get(Resource::Jobs, &key("shop/stray"))
            .cloned()
            .expect("a Job");
        let stray = Record::unreadable(stray.meta);
        cache.put(Resource::Jobs, &key("shop/stray"), Some(stray.clone()));
        let decide = |cache: &_, of: &str| {
            let decision = reconcile(&controller, cache, &key(of), Timestamp::EPOCH, Wire::AsUpstream);
            let unknown: Vec<_> = decision
                .unknown
                .iter()
                .map(|unknown| unknown.reason.code())
                .collect();
            (decision.steps.is_some(), unknown.join(" "))
        };
        let unknown = ["MetadataUnread"; 4];
        let (is_written, found) = decide(&cache, "shop/cron");
        assert!(
            !is_written && found.starts_with(&unknown[..3].join(" ")),
            "{found}"
        );
        let (is_written, found) = decide(&cache, "depot/cron");
        assert_eq!((is_written, found.is_empty()), (false, elsewhere == 0), "{found}");
        let keys = affected(&controller, &cache, Resource::Jobs, Some(&stray), None);
        assert_eq!(
            (keys.contains(&key("shop/cron")), keys.len()),
            (true, 1 + elsewhere)
        );
        cache.put(Resource::Jobs, &key("shop/stray"), None);
        assert!(decide(&cache, "shop/cron").0);
    }
}
