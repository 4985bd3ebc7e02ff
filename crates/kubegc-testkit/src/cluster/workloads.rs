//! Actions on workloads that a test takes: other rules, lost nodes, Jobs of CronJobs.

use kubegc_control_plane::{ControlPlane, workloads::Workloads};
use kubegc_sim::ApiServer;
use serde_json::json;

use super::{Cluster, Name};

impl Cluster {
    /// Replaces the rules of the [workloads](crate::Builder::workloads). Pods keep their state: a pod
    /// that runs does not become `Pending`.
    pub fn set_workloads(&self, workloads: Workloads) {
        let plane = &mut self.inner.state.lock().plane;
        plane.control.set_workloads(workloads.clone());
        plane.settings.workloads = Some(workloads.into());
        self.inner.pulse.beat();
    }

    /// Stops the kubelet of a node from reporting. The node becomes `Unknown`; its pods are not ready and do
    /// not terminate. The node is tainted. Its pods are evicted after their toleration time, while another
    /// node is ready. Returns whether there is such a node, and [workloads](crate::Builder::workloads).
    pub fn lose_node(&self, name: &str) -> bool {
        self.act(|plane, server| plane.set_node_runs(server, name, false))
    }

    /// Makes the kubelet of a lost node report again.
    pub fn recover_node(&self, name: &str) -> bool {
        self.act(|plane, server| plane.set_node_runs(server, name, true))
    }

    /// Creates a Job from the template of a CronJob, as `kubectl create job NAME --from=cronjob/...` does.
    /// `None` if the CronJob does not exist, or the API server refuses the Job.
    pub fn create_job_from(&self, namespace: &str, cron_job: &str, name: &str) -> Option<Name> {
        let response = self.inner.shared.with(|server| {
            let catalog = server.catalog();
            let beta = || catalog.mapping("batch/v1beta1", "CronJob");
            let kind = catalog.mapping("batch/v1", "CronJob").or_else(beta)?;
            let jobs = catalog.mapping("batch/v1", "Job")?;
            let api_version = catalog[kind].api_version();
            let owner = server.object(kind, namespace, cron_job)?;
            let template = owner.at(&["spec", "jobTemplate"])?;
            let mut job = json!({"metadata": {"name": name}, "spec": template["spec"]});
            for field in ["labels", "annotations"] {
                if let Some(values) = template["metadata"].get(field) {
                    job["metadata"][field] = values.clone();
                }
            }
            job["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] = "manual".into();
            job["metadata"]["ownerReferences"] = json!([{
                "apiVersion": api_version, "kind": "CronJob", "name": cron_job,
                "uid": owner.meta.uid.to_string(), "controller": true,
            }]);
            Some(server.create_json(jobs, namespace, job))
        })?;
        self.inner.pulse.beat();
        let job = Name::new("batch/v1", "Job", namespace, name);
        response.is_success().then(|| self.named(job))
    }

    /// Performs and records a write of the control plane. Returns whether there was one.
    fn act(&self, write: impl FnOnce(&mut ControlPlane, &mut ApiServer) -> bool) -> bool {
        self.inner.shared.with(|server| {
            let mut state = self.inner.state.lock();
            let has_changed = write(&mut state.plane.control, server);
            let entries = state.plane.entries(server);
            self.inner.record_all(server, &mut state, entries);
            has_changed
        })
    }
}
