//! Metrics of objects and runs, computed from the caches at each scrape.

use k8s_openapi::Resource as _;
use kube::{ResourceExt as _, runtime::reflector::Store};
use pko_api::{
    Decoded, Program, Stack,
    names::conditions::ConditionType,
    pulumi::v1::{StackStatus, UpdateState},
};
use pko_core::condition_set::is_true;
use prometheus::{
    GaugeVec, IntGauge, IntGaugeVec, Opts,
    core::{Collector, Desc},
    proto::MetricFamily,
};

type RunCounts = Box<dyn Fn() -> (usize, usize) + Send + Sync>;
type IsLeader = Box<dyn Fn() -> bool + Send + Sync>;

pub(crate) struct ObjectMetrics {
    stacks: Store<Decoded<Stack>>,
    programs: Store<Decoded<Program>>,
    runs: RunCounts,
    is_leader: IsLeader,
    descriptions: Vec<Desc>,
}

impl ObjectMetrics {
    /// `runs` returns how many runs wait and are in progress.
    pub(crate) fn new(
        stacks: Store<Decoded<Stack>>,
        programs: Store<Decoded<Program>>,
        runs: impl Fn() -> (usize, usize) + Send + Sync + 'static,
        is_leader: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<Self, prometheus::Error> {
        let mut objects = Self {
            stacks,
            programs,
            runs: Box::new(runs),
            is_leader: Box::new(is_leader),
            descriptions: Vec::new(),
        };
        let series = ObjectSeries::new()?;
        let described = series.each().into_iter().flat_map(Collector::desc);
        objects.descriptions = described.cloned().collect();
        Ok(objects)
    }

    fn compute(&self) -> Result<Vec<MetricFamily>, prometheus::Error> {
        let series = ObjectSeries::new()?;
        let stacks = self.stacks.state();
        series.stacks_active.set(number(stacks.len()));
        series
            .programs_active
            .set(number(self.programs.state().len()));
        for stack in &stacks {
            series.add(stack);
        }
        let (waiting, list_active_runs) = (self.runs)();
        series.runs_waiting.set(number(waiting));
        series.runs_under_way.set(number(list_active_runs));
        let leads = f64::from(u8::from((self.is_leader)()));
        let name = crate::leader_election::NAME;
        series.leads.with_label_values(&[name]).set(leads);
        Ok(series
            .each()
            .into_iter()
            .flat_map(Collector::collect)
            .collect())
    }
}

impl Collector for ObjectMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Creating the same series has succeeded before.
        self.compute().unwrap_or_default()
    }
}

struct ObjectSeries {
    stacks_active: IntGauge,
    stacks_failing: GaugeVec,
    stacks_reconciling: GaugeVec,
    created: IntGaugeVec,
    programs_active: IntGauge,
    runs_waiting: IntGauge,
    runs_under_way: IntGauge,
    leads: GaugeVec,
}

impl ObjectSeries {
    fn new() -> Result<Self, prometheus::Error> {
        let object = &["namespace", "name"];
        Ok(Self {
            stacks_active: IntGauge::new(
                "stacks_active",
                "Number of stacks currently tracked by the Pulumi Kubernetes Operator",
            )?,
            stacks_failing: GaugeVec::new(
                Opts::new(
                    "stacks_failing",
                    "Number of stacks currently registered where the last reconcile failed",
                ),
                object,
            )?,
            stacks_reconciling: GaugeVec::new(
                Opts::new(
                    "stacks_reconciling",
                    "Number of stacks currently registered where the last reconcile is in progress",
                ),
                object,
            )?,
            created: IntGaugeVec::new(
                Opts::new(
                    "resource_created_at_seconds",
                    "Timestamp at which a resource was created",
                ),
                &["name", "namespace", "group", "version", "kind"],
            )?,
            programs_active: IntGauge::new(
                "programs_active",
                "Number of Program objects currently tracked by the Pulumi Kubernetes Operator",
            )?,
            runs_waiting: IntGauge::new(
                "pko_runs_waiting",
                "Number of runs that wait in the queue",
            )?,
            runs_under_way: IntGauge::new("pko_runs_under_way", "Number of runs in progress")?,
            leads: GaugeVec::new(
                Opts::new(
                    "leader_election_master_status",
                    "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                ),
                &["name"],
            )?,
        })
    }

    fn each(&self) -> [&dyn Collector; 8] {
        [
            &self.stacks_active,
            &self.stacks_failing,
            &self.stacks_reconciling,
            &self.created,
            &self.programs_active,
            &self.runs_waiting,
            &self.runs_under_way,
            &self.leads,
        ]
    }

    fn add(&self, stack: &Decoded<Stack>) {
        let (namespace, name) = (stack.namespace().unwrap_or_default(), stack.name_any());
        let labels = &[namespace.as_str(), name.as_str()];
        if let Some(created) = stack.creation_timestamp() {
            let labels = [
                name.as_str(),
                &namespace,
                Stack::GROUP,
                Stack::VERSION,
                Stack::KIND,
            ];
            self.created
                .with_label_values(&labels)
                .set(created.0.as_second());
        }
        let Some(status) = status(stack) else {
            return;
        };
        // A Stack without an Update has neither value.
        if let Some(failing) = is_failing(status) {
            let value = f64::from(u8::from(failing));
            self.stacks_failing.with_label_values(labels).set(value);
        }
        let reconciling = is_true(&status.conditions, ConditionType::Reconciling);
        let value = f64::from(u8::from(reconciling));
        self.stacks_reconciling.with_label_values(labels).set(value);
    }
}

fn status(stack: &Decoded<Stack>) -> Option<&StackStatus> {
    stack.as_result().ok()?.status.as_ref()
}

fn is_failing(status: &StackStatus) -> Option<bool> {
    match status.last_update.as_ref()?.state.as_ref()? {
        UpdateState::Failed => Some(true),
        UpdateState::Succeeded => Some(false),
        UpdateState::Other(_) => None,
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
