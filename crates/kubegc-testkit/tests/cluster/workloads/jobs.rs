//! Jobs, and Jobs of CronJobs.

use super::*;

fn job(spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: backup}}
spec:
  {spec}
  template:
    spec: {{restartPolicy: Never, containers: [{{name: c, image: 'backup:1'}}]}}
"
    )
}

#[tokio::test(start_paused = true)]
async fn jobs_complete() {
    for version in ["1.20.2", "1.25.0", "1.27.3", "1.36.0"] {
        let cluster = cluster(
            version,
            Workloads::new(),
            &job("parallelism: 2\n  completions: 5"),
        );
        settle(&cluster, 10).await;
        let backup = get(&cluster, "Job", "backup");
        assert_eq!(
            backup["status"]["succeeded"], 5,
            "{version}: {}",
            backup["status"]
        );
        assert_eq!(condition(&backup, "Complete").0, "True", "{version}");
        assert_eq!(backup["status"]["completionTime"], "2026-01-01T00:00:00Z");
        let pods = all(&cluster, "Pod");
        assert_eq!(pods.len(), 5, "{version}");
        for pod in &pods {
            assert_eq!(pod["status"]["phase"], "Succeeded");
            assert!(pod["metadata"]["finalizers"].is_null(), "{version}");
            assert_eq!(pod["metadata"]["labels"]["job-name"], "backup");
        }
        delete(&cluster, "Job", "backup", "Background");
        settle(&cluster, 0).await;
        assert!(all(&cluster, "Pod").is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_fail_after_their_backoff_limit() {
    for version in ["1.20.2", "1.25.0", "1.27.3", "1.36.0"] {
        let fails = PodFate::Fails { after: seconds(5) };
        let workloads = Workloads::new().pods(move |pod| pod.is_of("Job", "backup").then_some(fails));
        let cluster = cluster(version, workloads, &job("backoffLimit: 2"));
        settle(&cluster, 4).await;
        assert_eq!(get(&cluster, "Job", "backup")["status"]["active"], 1);
        let pod = &all(&cluster, "Pod")[0];
        let is_tracked = version != "1.20.2";
        assert_eq!(
            pod["metadata"]["finalizers"][0] == "batch.kubernetes.io/job-tracking",
            is_tracked
        );
        // The second pod starts 10 s after the first failure, the third one 20 s after the second.
        for (time, pods) in [(1, 1), (10, 2), (5, 2), (20, 3)] {
            settle(&cluster, time).await;
            assert_eq!(all(&cluster, "Pod").len(), pods, "{version}");
        }
        settle(&cluster, 3600).await;
        let backup = get(&cluster, "Job", "backup");
        assert_eq!(
            condition(&backup, "Failed"),
            ("True", "BackoffLimitExceeded"),
            "{version}"
        );
        assert_eq!(backup["status"]["failed"], 3, "{version}");
        assert_eq!(all(&cluster, "Pod").len(), 3, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_are_suspended_indexed_and_created_from_cron_jobs() {
    let cluster = latest(
        Workloads::new(),
        &job("suspend: true\n  completions: 3\n  parallelism: 3\n  completionMode: Indexed"),
    );
    settle(&cluster, 0).await;
    let backup = get(&cluster, "Job", "backup");
    assert_eq!(condition(&backup, "Suspended"), ("True", "JobSuspended"));
    assert!(backup["status"]["startTime"].is_null() && all(&cluster, "Pod").is_empty());
    patch(&cluster, "Job", "backup", json!({"spec": {"suspend": false}}));
    settle(&cluster, 0).await;
    let backup = get(&cluster, "Job", "backup");
    assert_eq!(backup["status"]["completedIndexes"], "0-2");
    assert_eq!(condition(&backup, "Suspended"), ("False", "JobResumed"));
    assert_eq!(condition(&backup, "Complete").0, "True");

    for (version, api_version) in [("1.20.2", "batch/v1beta1"), ("1.36.0", "batch/v1")] {
        let cron_job = format!(
            "
apiVersion: {api_version}
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: '0 3 * * *'
  jobTemplate:
    metadata: {{labels: {{app: backup}}}}
    spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: job, image: i}}]}}}}}}
"
        );
        let cluster = self::cluster(version, Workloads::new(), &cron_job);
        settle(&cluster, 0).await;
        assert!(cluster.create_job_from("default", "weekly", "now").is_none());
        let job = cluster.create_job_from("default", "nightly", "now").unwrap();
        assert_eq!(job.to_string(), "job/now -n default");
        settle(&cluster, 0).await;
        let now = get(&cluster, "Job", "now");
        assert_eq!(condition(&now, "Complete").0, "True", "{version}");
        assert_eq!(
            now["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"],
            "manual"
        );
        assert_eq!(now["metadata"]["ownerReferences"][0]["apiVersion"], api_version);
    }
}
