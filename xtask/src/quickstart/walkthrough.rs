//! Prints the conditions of the example's Stack as they change.

use std::time::{Duration, Instant};

use anyhow::bail;
use kube::{Api, Client, api::DeleteParams};
use pko_api::Stack;
use pko_testkit::ControlPlane;

use super::manager::Manager;

const DEADLINE: Duration = Duration::from_mins(2);
const PAUSE: Duration = Duration::from_millis(50);
const NAME: &str = "hello";

pub(super) struct Walkthrough {
    stacks: Api<Stack>,
    began: Instant,
}

impl Walkthrough {
    pub(super) fn begin(plane: &ControlPlane) -> anyhow::Result<Self> {
        let client: Client = plane.client()?;
        Ok(Self {
            stacks: Api::namespaced(client, "default"),
            began: Instant::now(),
        })
    }

    /// Prints conditions until the Stack is Ready, then its outputs.
    pub(super) async fn until_ready(&self) -> anyhow::Result<()> {
        let stack = self
            .until("Ready", |stack| {
                stack.is_some_and(|stack| summary(stack).starts_with("Ready"))
            })
            .await?;
        let outputs = stack
            .and_then(|stack| stack.status?.outputs)
            .unwrap_or_default();
        println!("outputs");
        for (name, value) in outputs {
            println!("  {name} = {value}");
        }
        Ok(())
    }

    /// Deletes the Stack and prints conditions until it is gone.
    pub(super) async fn delete_and_wait(&self) -> anyhow::Result<()> {
        println!("kubectl delete stack {NAME}");
        self.stacks.delete(NAME, &DeleteParams::default()).await?;
        self.until("gone", |stack| stack.is_none()).await?;
        println!("  {}  gone", self.time());
        Ok(())
    }

    async fn until(
        &self,
        what: &str,
        reached: impl Fn(Option<&Stack>) -> bool,
    ) -> anyhow::Result<Option<Stack>> {
        let end = Instant::now() + DEADLINE;
        let mut printed = String::new();
        loop {
            let stack = self.stacks.get_opt(NAME).await?;
            let now = stack.as_ref().map(summary).unwrap_or_default();
            if now != printed && !now.is_empty() {
                println!("  {}  {now}", self.time());
                printed.clone_from(&now);
            }
            if reached(stack.as_ref()) {
                return Ok(stack);
            }
            if Instant::now() > end {
                bail!(
                    "the Stack was not {what} after {} s; it was: {printed}",
                    DEADLINE.as_secs()
                );
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn time(&self) -> String {
        format!("{:5.1} s", self.began.elapsed().as_secs_f64())
    }
}

/// The state of a Stack on one line.
fn summary(stack: &Stack) -> String {
    let status = stack.status.clone().unwrap_or_default();
    // The condition that is True is the informative one.
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.status == "True");
    let deleting = stack.metadata.deletion_timestamp.is_some();
    match condition {
        Some(condition) if deleting && condition.type_ == "Ready" => "deleting".to_owned(),
        Some(condition) => format!(
            "{} ({}): {}",
            condition.type_, condition.reason, condition.message
        ),
        None => String::new(),
    }
}

pub(super) fn print_next_steps(plane: &ControlPlane, manager: &Manager) {
    let kubeconfig = plane.kubeconfig();
    println!("\nIt stays up until Ctrl-C. Try, in another terminal:\n");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    for command in [
        "kubectl get stacks,workspaces,updates,programs",
        r#"kubectl patch stack hello --type merge -p '{"spec":{"config":{"name":"you"}}}'"#,
        "kubectl annotate stack hello pulumi.com/reconciliation-request=again --overwrite",
        "kubectl describe stack hello",
        "kubectl delete stack hello",
    ] {
        println!("  {command}");
    }
    let kubectl = plane
        .kubectl()
        .ok()
        .map(|command| command.get_program().to_string_lossy().into_owned());
    if let Some(kubectl) = kubectl {
        println!("\nkubectl, if you have none: {kubectl}");
    }
    println!(
        "the manager's log: {}",
        manager.folder().join("manager.log").display()
    );
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stack(conditions: &Value) -> Stack {
        serde_json::from_value(json!({
            "metadata": { "name": "hello" }, "spec": { "stack": "dev" }, "status": { "conditions": conditions },
        }))
        .unwrap()
    }

    #[test]
    fn summary_shows_the_true_condition() {
        let condition = |kind: &str, status: &str, reason: &str| json!({ "type": kind, "status": status, "reason": reason, "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let busy = stack(&json!([
            condition("Ready", "False", "NotReadyInProgress"),
            condition("Reconciling", "True", "StackProcessing")
        ]));
        assert_eq!(summary(&busy), "Reconciling (StackProcessing): m");
        assert_eq!(summary(&stack(&json!([]))), "");
    }
}
