{
    // The cluster of the examples: a ConfigMap owns a Secret.
    let version = kubegc_core::KubernetesVersion::LATEST;
    let dump = b"
apiVersion: v1
kind: ConfigMap
metadata: {namespace: shop, name: owner, uid: u1}
---
apiVersion: v1
kind: Secret
metadata:
  namespace: shop
  name: key
  uid: u2
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: owner, uid: u1}]
";
    let mut reader = kubegc_snapshot::Reader::new(version).complete("all");
    reader.read("dump.yaml", &dump[..])?;
    kubegc_predict::Cluster::new(version, reader.finish()?, kubegc_predict::Assumptions::default())
}
