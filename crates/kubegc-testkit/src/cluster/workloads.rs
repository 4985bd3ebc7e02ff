//! Actions on workloads that a test takes: other rules, lost nodes, restarts, Jobs of CronJobs.

use kubegc_control_plane::{
    ControlPlane,
    workloads::{self, Workloads},
};
use kubegc_sim::ApiServer;

use super::{Cluster, Name};

impl Cluster {
    /// Replaces the rules of the [workloads](crate::Builder::workloads). Pods keep their state: a pod
    /// that runs does not become `Pending`.
    pub fn set_workloads(&self, workloads: Workloads) {
        self.inner.shared.with(|server| {
            let plane = &mut self.inner.state.lock().plane;
            plane.control.set_workloads(server, workloads.clone());
            plane.workloads = Some(workloads.into());
        });
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

    /// Makes the containers of a pod exit once with code 1; the kubelet restarts them at once. Returns
    /// whether the pod runs.
    pub fn restart_pod(&self, namespace: &str, name: &str) -> bool {
        self.act(|plane, server| plane.restart_pod(server, namespace, name))
    }

    /// Creates a Job from the template of a CronJob, as `kubectl create job NAME --from=cronjob/...` does.
    /// `None` if the CronJob does not exist, or the API server refuses the Job.
    #[must_use]
    pub fn create_job_from(&self, namespace: &str, cron_job: &str, name: &str) -> Option<Name> {
        let shared = &self.inner.shared;
        let response = shared.with(|server| workloads::create_job_from(server, namespace, cron_job, name))?;
        self.inner.pulse.beat();
        let job = Name::new("batch/v1", "Job", namespace, name);
        response.is_success().then(|| self.named(job))
    }

    /// Performs and records a write of the control plane. Returns whether it was accepted.
    fn act(&self, write: impl FnOnce(&mut ControlPlane, &mut ApiServer) -> Option<u16>) -> bool {
        self.inner.shared.with(|server| {
            let mut state = self.inner.state.lock();
            let code = write(&mut state.plane.control, server);
            let entries = state.plane.entries(server);
            self.inner.record_all(server, &mut state, entries);
            code.is_some_and(|code| code < 400)
        })
    }
}
