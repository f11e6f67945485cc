//! The request that starts the run of an Update.

use std::time::Duration;

use pko_api::{
    Update, Workspace,
    auto::v1alpha1::{ConfigItem, OperationType, UpdateSpec, WorkspaceStack},
};
use pko_core::update::InterruptedRun;
use pko_proto::{
    agent::{self as wire, ConfigValueFrom, config_item, config_value_from},
    convert::{to_proto_timestamp, to_proto_value},
    run::{self as runs, RunStack, StackConfig, StartRunRequest, start_run_request::Operation},
};

/// `max_duration` is for Updates that don't set a timeout, `lost` are runs whose locks can be
/// removed, and `local_path` maps a path of the container.
pub(crate) fn start_request(
    update: &Update,
    workspace: &Workspace,
    max_duration: Option<Duration>,
    lost: Vec<InterruptedRun>,
    local_path: impl Fn(&str) -> String,
) -> Result<StartRunRequest, String> {
    let name = update.spec.stack_name.clone().unwrap_or_default();
    let stack = workspace
        .spec
        .stacks
        .iter()
        .find(|stack| stack.name == name);
    Ok(StartRunRequest {
        run_id: update.metadata.uid.clone().unwrap_or_default(),
        stack: Some(run_stack(&name, stack, local_path)?),
        operation: Some(operation(&update.spec)?),
        time_limit: time_limit(&update.spec, max_duration)?,
        lost_runs: lost.into_iter().map(lost_run).collect(),
    })
}

fn lost_run(run: InterruptedRun) -> runs::LostRun {
    runs::LostRun {
        run_id: run.id,
        begun_at: Some(to_proto_timestamp(run.begun)),
        lost_at: Some(to_proto_timestamp(run.lost)),
    }
}

fn time_limit(
    spec: &UpdateSpec,
    max_duration: Option<Duration>,
) -> Result<Option<prost_types::Duration>, String> {
    let own = spec.timeout_seconds.map(u64::try_from).transpose();
    let own = own.map_err(|_| "spec.timeoutSeconds: a time limit is not negative".to_owned())?;
    let limit = own.map(Duration::from_secs).or(max_duration);
    let limit = limit.map(prost_types::Duration::try_from).transpose();
    limit.map_err(|_| "spec.timeoutSeconds: that is longer than any run".to_owned())
}

fn run_stack(
    name: &str,
    stack: Option<&WorkspaceStack>,
    local_path: impl Fn(&str) -> String,
) -> Result<RunStack, String> {
    let items = stack
        .map_or(&[][..], |stack| &stack.config)
        .iter()
        .map(|item| config_item(item, &local_path));
    let config = StackConfig {
        items: items.collect::<Result<_, _>>()?,
        environments: stack
            .map(|stack| stack.environment.clone())
            .unwrap_or_default(),
    };
    Ok(RunStack {
        name: name.to_owned(),
        // As in upstream, an Update creates a stack that its Workspace does not mention.
        create: stack.and_then(|stack| stack.create).unwrap_or(true),
        secrets_provider: stack.and_then(|stack| stack.secrets_provider.clone()),
        config: stack.map(|_| config),
    })
}

/// A config value. `local_path` maps a path of the container.
pub(crate) fn config_item(
    item: &ConfigItem,
    local_path: impl Fn(&str) -> String,
) -> Result<wire::ConfigItem, String> {
    let value = match (&item.value_from, &item.value) {
        (Some(from), _) => {
            let source = match (&from.env, &from.path) {
                (Some(variable), _) => config_value_from::F::Env(variable.clone()),
                (None, Some(path)) => config_value_from::F::Path(local_path(path)),
                (None, None) => {
                    return Err(format!(
                        "config \"{}\": valueFrom has neither env nor path",
                        item.key
                    ));
                }
            };
            config_item::V::ValueFrom(ConfigValueFrom {
                f: Some(source),
                json: from.json,
            })
        }
        (None, Some(value)) => config_item::V::Value(to_proto_value(value)),
        (None, None) => {
            return Err(format!(
                "config \"{}\" has neither value nor valueFrom",
                item.key
            ));
        }
    };
    Ok(wire::ConfigItem {
        key: item.key.clone(),
        path: item.path,
        secret: item.secret,
        v: Some(value),
    })
}

fn operation(spec: &UpdateSpec) -> Result<Operation, String> {
    let spec = spec.clone();
    Ok(match spec.operation {
        Some(OperationType::Preview) => Operation::Preview(wire::PreviewRequest {
            parallel: spec.parallel,
            message: spec.message,
            expect_no_changes: spec.expect_no_changes,
            replace: spec.replace,
            target: spec.target,
            target_dependents: spec.target_dependents,
            policy_pack: Vec::new(),
            refresh: spec.refresh,
        }),
        Some(OperationType::Up) => Operation::Up(wire::UpRequest {
            parallel: spec.parallel,
            message: spec.message,
            expect_no_changes: spec.expect_no_changes,
            replace: spec.replace,
            target: spec.target,
            target_dependents: spec.target_dependents,
            policy_pack: Vec::new(),
            refresh: spec.refresh,
            continue_on_error: spec.continue_on_error,
        }),
        Some(OperationType::Refresh) => Operation::Refresh(wire::RefreshRequest {
            parallel: spec.parallel,
            message: spec.message,
            expect_no_changes: spec.expect_no_changes,
            target: spec.target,
            run_program: spec.run_program,
        }),
        Some(OperationType::Destroy) => Operation::Destroy(wire::DestroyRequest {
            parallel: spec.parallel,
            message: spec.message,
            target: spec.target,
            target_dependents: spec.target_dependents,
            refresh: spec.refresh,
            continue_on_error: spec.continue_on_error,
            remove: spec.remove,
            run_program: spec.run_program,
        }),
        Some(OperationType::Other(name)) => {
            return Err(format!("there is no operation \"{name}\""));
        }
        None => return Err("the Update has no type".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(
        stack: &serde_json::Value,
        update: &serde_json::Value,
    ) -> Result<StartRunRequest, String> {
        let workspace = json!({ "metadata": { "name": "w" }, "spec": { "stacks": [stack] } });
        let update = json!({ "metadata": { "name": "u", "uid": "id-1" }, "spec": update });
        start_request(
            &serde_json::from_value(update).unwrap(),
            &serde_json::from_value(workspace).unwrap(),
            Some(Duration::from_mins(1)),
            vec![lost()],
            |path| format!("/root{path}"),
        )
    }

    fn lost() -> InterruptedRun {
        InterruptedRun {
            id: "id-0".to_owned(),
            begun: jiff::Timestamp::from_second(10).unwrap(),
            lost: jiff::Timestamp::from_second(20).unwrap(),
        }
    }

    #[test]
    fn start_request_has_the_uid_of_the_update() {
        let stack = json!({ "name": "dev", "create": false, "secretsProvider": "passphrase", "config": [
            { "key": "a", "value": 1, "secret": false },
            { "key": "b", "valueFrom": { "path": "/run/b", "json": true }, "secret": true },
        ], "environment": ["org/env"] });
        let update =
            json!({ "stackName": "dev", "type": "destroy", "remove": true, "runProgram": false });
        let request = request(&stack, &update).unwrap();
        assert_eq!(request.run_id, "id-1");
        let second = |time: &Option<prost_types::Timestamp>| time.as_ref().unwrap().seconds;
        let [lost] = &request.lost_runs[..] else {
            panic!("one lost run")
        };
        assert_eq!(lost.run_id, "id-0");
        assert_eq!((second(&lost.begun_at), second(&lost.lost_at)), (10, 20));
        let stack = request.stack.unwrap();
        assert_eq!((stack.name.as_str(), stack.create), ("dev", false));
        let config = stack.config.unwrap();
        assert_eq!(config.environments, ["org/env"]);
        let path = ConfigValueFrom {
            f: Some(config_value_from::F::Path("/root/run/b".into())),
            json: Some(true),
        };
        assert_eq!(config.items[1].v, Some(config_item::V::ValueFrom(path)));
        let Some(Operation::Destroy(destroy)) = request.operation else {
            panic!("a destroy")
        };
        assert_eq!(
            (destroy.remove, destroy.run_program, destroy.refresh),
            (Some(true), Some(false), None)
        );
    }

    #[test]
    fn start_request_creates_a_stack_unknown_to_the_workspace() {
        let stack = request(
            &json!({ "name": "other" }),
            &json!({ "stackName": "dev", "type": "up" }),
        )
        .unwrap()
        .stack
        .unwrap();
        assert!(stack.create);
        assert_eq!(stack.config, None);
    }

    #[test]
    fn start_request_time_limit_is_the_updates_or_the_default() {
        let limit = |seconds: serde_json::Value| {
            let update = json!({ "stackName": "dev", "type": "up", "timeoutSeconds": seconds });
            let request = request(&json!({ "name": "dev" }), &update);
            request.map(|request| request.time_limit.map(|limit| limit.seconds))
        };
        assert_eq!(limit(json!(5)), Ok(Some(5)));
        assert_eq!(limit(json!(null)), Ok(Some(60)));
        assert!(
            limit(json!(-1))
                .unwrap_err()
                .starts_with("spec.timeoutSeconds")
        );
    }

    #[test]
    fn start_request_rejects_unsupported_operations() {
        let bare = json!({ "name": "dev", "config": [{ "key": "a" }] });
        let error = request(&bare, &json!({ "stackName": "dev", "type": "up" })).unwrap_err();
        assert_eq!(error, "config \"a\" has neither value nor valueFrom");
        let error = request(&json!({ "name": "dev" }), &json!({ "type": "dance" })).unwrap_err();
        assert_eq!(error, "there is no operation \"dance\"");
    }
}
