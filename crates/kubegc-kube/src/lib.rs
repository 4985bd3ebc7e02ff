//! kube-rs adapter: the object store over a client, the collector beside an API server, snapshots of live clusters.
