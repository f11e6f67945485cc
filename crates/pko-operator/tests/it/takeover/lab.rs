//! The cluster that upstream left: its objects as they were, and its node, on which its agents
//! still serve.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

use futures::StreamExt as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt as _,
    api::DeleteParams,
    runtime::{WatchStreamExt as _, watcher},
};
use pko_testkit::{fixtures, node};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::{System, eprintln_lines, program};

/// Where everything is.
pub(super) const NAMESPACE: &str = "shop";
/// The node of upstream's pods.
const NODE: &str = "lab";
/// The Stack whose service account may not create a `TokenReview`.
const WITHOUT_RIGHTS: &str = "no-delegator";

/// The data of the Secret of all Stacks.
const PASSPHRASE: &str = "correct-horse";

/// The node, and what runs on it.
pub(super) struct Lab {
    agents: Arc<Mutex<Vec<Agent>>>,
    kubelet: JoinHandle<()>,
}

impl Lab {
    /// Puts the objects of a folder into the cluster, as upstream left them this long ago.
    pub(super) async fn restore(system: &System, folder: &Path, ago: SignedDuration) -> Self {
        let mut objects = fixtures::load(folder).unwrap();
        move_times(&mut objects, ago);
        let folder = system.subfolder();
        let programs = programs(&objects);
        let pods = objects.iter_mut().filter(|object| serves(object));
        let agents = pods.map(|pod| Agent::start(system, pod, &programs, &folder));
        let agents = Arc::new(Mutex::new(agents.collect()));
        // While a part of them is there, controllers would act on what is missing
        system.plane.stop_controllers().unwrap();
        fixtures::restore(&system.plane, &objects).await.unwrap();
        system.plane.start_controllers().unwrap();
        let client = system.plane.client().unwrap();
        Self {
            kubelet: tokio::spawn(end_pods(client, Arc::clone(&agents))),
            agents,
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.kubelet.abort();
        for agent in self.agents.lock().unwrap().iter_mut() {
            agent.end();
            if std::thread::panicking() {
                let log = fs::read_to_string(&agent.log).unwrap_or_default();
                eprintln_lines(&agent.pod, &log);
            }
        }
    }
}

/// Moves all times so that the newest was this long ago: what is due does not depend on the day of
/// the test.
fn move_times(objects: &mut [Value], ago: SignedDuration) {
    let mut newest = Timestamp::UNIX_EPOCH;
    for object in &mut *objects {
        for_times(object, &mut |time| newest = newest.max(*time));
    }
    let distance = (Timestamp::now() - ago).duration_since(newest);
    let distance = SignedDuration::from_secs(distance.as_secs());
    for object in objects {
        for_times(object, &mut |time| *time += distance);
    }
}

fn for_times(value: &mut Value, change: &mut impl FnMut(&mut Timestamp)) {
    match value {
        Value::String(text) => {
            if let Ok(mut time) = text.parse::<Timestamp>() {
                change(&mut time);
                // Kubernetes requires six digits in a fraction
                *text = if text.contains('.') {
                    format!("{time:.6}")
                } else {
                    time.to_string()
                };
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| for_times(item, change)),
        Value::Object(fields) => {
            let fields = fields.values_mut();
            fields.for_each(|field| for_times(field, change));
        }
        _ => {}
    }
}

/// Whether this is a pod with an agent.
fn serves(object: &Value) -> bool {
    object["kind"] == "Pod" && object["status"]["phase"] == "Running"
}

/// What the Programs say, by their names.
fn programs(objects: &[Value]) -> BTreeMap<String, Value> {
    let programs = objects.iter().filter(|object| object["kind"] == "Program");
    let named = |program: &Value| {
        let name = program["metadata"]["name"].as_str().unwrap();
        (name.to_owned(), program["program"].clone())
    };
    programs.map(named).collect()
}

/// The agent of one pod. Ours takes upstream's command line, and stands for it.
struct Agent {
    pod: String,
    log: PathBuf,
    process: Child,
}

impl Agent {
    /// Starts it with the flags and variables of its container, at an address that the pod then
    /// has.
    fn start(
        system: &System,
        pod: &mut Value,
        programs: &BTreeMap<String, Value>,
        folder: &Path,
    ) -> Self {
        let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
        let log = folder.join(format!("{name}.log"));
        // Beside it the agent keeps what is its own
        let workspace = folder.join(&name).join("workspace");
        fs::create_dir_all(&workspace).unwrap();
        let project = project(pod, programs).to_string();
        fs::write(workspace.join("Pulumi.yaml"), project).unwrap();
        let address = node::free_address().unwrap().to_string();
        let container = &pod["spec"]["containers"][0];
        let process = Command::new(program("agent"))
            .args(["serve", "--skip-install", "--host", &address, "--workspace"])
            .arg(&workspace)
            .args(auth_flags(container))
            .arg("--kubeconfig")
            .arg(if name.starts_with(WITHOUT_RIGHTS) {
                system.plane.kubeconfig_as("nobody", &[]).unwrap()
            } else {
                system.plane.kubeconfig()
            })
            .envs(system.environment())
            .envs(variables(container))
            .env("PULUMI_CONFIG_PASSPHRASE", PASSPHRASE)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        pod["status"]["podIP"] = json!(address);
        pod["status"]["podIPs"] = json!([{ "ip": address }]);
        Self {
            pod: name,
            log,
            process,
        }
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The project file that the init container had fetched; one without a program for a destroy.
fn project(pod: &Value, programs: &BTreeMap<String, Value>) -> Value {
    let fetched = variables(&pod["spec"]["initContainers"][1]);
    let address = fetched.get("FLUX_URL").map_or("", String::as_str);
    let program = address
        .rsplit('/')
        .nth(1)
        .and_then(|name| programs.get(name));
    let mut project = program.cloned().unwrap_or_else(|| json!({}));
    project["name"] = json!("hello");
    project["runtime"] = json!("yaml");
    project
}

/// The variables of a container with literal values.
fn variables(container: &Value) -> BTreeMap<String, String> {
    let variables = container["env"].as_array().into_iter().flatten();
    let literal = |variable: &Value| {
        let text = |field: &str| Some(variable.get(field)?.as_str()?.to_owned());
        Some((text("name")?, text("value")?))
    };
    variables
        .filter_map(literal)
        .filter(|(name, _)| name != "PULUMI_ENV")
        .collect()
}

/// The part of a container's command that selects callers: all from `--auth-mode` on.
fn auth_flags(container: &Value) -> Vec<String> {
    let words = container["command"].as_array().unwrap().iter();
    let words = words.map(|word| word.as_str().unwrap().to_owned());
    words.skip_while(|word| word != "--auth-mode").collect()
}

/// What is left of a kubelet: pods that are to end do end.
async fn end_pods(client: Client, agents: Arc<Mutex<Vec<Agent>>>) {
    let pods = Api::<Pod>::namespaced(client, NAMESPACE);
    let of_lab = watcher::Config::default().fields(&format!("spec.nodeName={NODE}"));
    let mut seen = std::pin::pin!(watcher(pods.clone(), of_lab).applied_objects());
    let now = DeleteParams::default().grace_period(0);
    while let Some(pod) = seen.next().await {
        let Ok(pod) = pod else { continue };
        if pod.metadata.deletion_timestamp.is_some() {
            end_agent(&agents, &pod.name_any());
            let _ = pods.delete(&pod.name_any(), &now).await;
        }
    }
}

fn end_agent(agents: &Mutex<Vec<Agent>>, pod: &str) {
    let mut agents = agents.lock().unwrap();
    let of_pod = agents.iter_mut().filter(|agent| agent.pod == pod);
    of_pod.for_each(Agent::end);
}
