//! Clients of several versions of kube over one testkit. Each gets a service, as its documentation
//! requires.

use kubegc_testkit::{Cluster, Name};

macro_rules! works_with {
    ($($test:ident: $kube:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $test() {
            use futures_util::TryStreamExt;
            use $kube::{
                Api, Client, ResourceExt,
                api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
                core::{ApiResource, DynamicObject, GroupVersionKind},
            };

            let cluster = Cluster::new();
            let client = Client::new(cluster.service("operator"), "default");
            let config_maps = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
            let api: Api<DynamicObject> = Api::default_namespaced_with(client, &config_maps);

            let owner = api.create(&PostParams::default(), &DynamicObject::new("owner", &config_maps)).await.unwrap();
            let dependent: DynamicObject = serde_json::from_value(serde_json::json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {
                    "name": "dependent",
                    "ownerReferences": [
                        { "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid().unwrap() },
                    ],
                },
            }))
            .unwrap();
            api.create(&PostParams::default(), &dependent).await.unwrap();
            let labelled = serde_json::json!({ "metadata": { "labels": { "app": "web" } } });
            api.patch("dependent", &PatchParams::default(), &Patch::Merge(labelled)).await.unwrap();
            let list = api.list(&ListParams::default().labels("app=web")).await.unwrap();
            assert_eq!(list.items.len(), 1);

            api.delete("owner", &DeleteParams::background()).await.unwrap();
            cluster.settle().await.unwrap();
            for name in ["owner", "dependent"] {
                cluster.assert_collected(Name::new("v1", "ConfigMap", "default", name));
                assert!(cluster.get("v1", "ConfigMap", "default", name).is_none());
            }
            let error = api.get("dependent").await.unwrap_err();
            assert!(matches!(error, $kube::Error::Api(status) if status.code == 404));

            let version = list.metadata.resource_version.unwrap();
            let mut watch = std::pin::pin!(api.watch(&WatchParams::default(), &version).await.unwrap());
            let mut deleted = 0;
            while deleted < 2 {
                if let Some(WatchEvent::Deleted(_)) = watch.try_next().await.unwrap() {
                    deleted += 1;
                }
            }
            assert!(cluster.audit().by("operator").len() > 5);
        }
    )*};
}

works_with! {
    kube_1: kube_1,
    kube_2: kube_2,
    kube_3: kube_3,
    kube_4: kube_4,
    kube_5: kube_5,
}
