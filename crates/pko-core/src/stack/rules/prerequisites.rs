//! The Stacks that must have succeeded before this one runs.

use std::{collections::BTreeSet, time::Duration};

use jiff::{SignedDuration, Timestamp};
use pko_api::{
    Stack,
    names::{conditions::ConditionType, reasons::StackReason},
    pulumi::v1::{LastUpdate, Prerequisite, UpdateState},
};

use crate::{
    Blocked,
    condition_set::{brief, find},
    stack::{
        Prerequisites, StackEffect, StackEvaluation, StackRead, StackStep, finished_update,
        observed::request,
    },
};

/// The other Stack's own events end the wait; this is in case one is lost.
const WAIT: Duration = Duration::from_mins(5);

/// Waits until the prerequisites have succeeded. A deletion does not wait for them.
pub(in crate::stack) fn wait(evaluation: &StackEvaluation) -> Option<StackStep> {
    let prerequisites = &evaluation.observed.stack.spec.prerequisites;
    if prerequisites.is_empty() || evaluation.observed.is_deleting() {
        return None;
    }
    let stacks = match evaluation
        .observed
        .prerequisites
        .or_read(|| StackRead::Prerequisites)
    {
        Ok(stacks) => stacks,
        Err(read) => return Some(read),
    };
    if let Some(message) = cycle_message(evaluation, stacks) {
        return Some(evaluation.reject_spec_for_now(message, WAIT));
    }
    let unmet: Vec<Unmet> = prerequisites
        .iter()
        .filter_map(|prerequisite| unmet(prerequisite, stacks, evaluation.now))
        .collect();
    let message = message(&unmet)?;
    let requests = unmet.into_iter().filter_map(|unmet| unmet.request);
    let blocked = Blocked::Transient(StackReason::PrerequisiteNotSatisfied, message, WAIT);
    let status = evaluation.status_with(&blocked.summary());
    Some(evaluation.plan(status, requests, None, blocked.requeue()))
}

/// A prerequisite that is not satisfied.
struct Unmet {
    name: String,
    message: String,
    /// The effect that requests a new run of it.
    request: Option<StackEffect>,
}

fn message(unmet: &[Unmet]) -> Option<String> {
    match unmet {
        [] => None,
        [one] => Some(one.message.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|unmet| unmet.name.as_str()).collect();
            Some(format!(
                "multiple prerequisites were not satisfied {}",
                names.join(", ")
            ))
        }
    }
}

fn unmet(prerequisite: &Prerequisite, stacks: &Prerequisites, now: Timestamp) -> Option<Unmet> {
    let name = &prerequisite.name;
    let stack = match stacks.get(name) {
        Some(Ok(stack)) => stack,
        Some(Err(error)) => return Some(unavailable(name, error)),
        None => return Some(unavailable(name, "it was not read")),
    };
    let (why, request) = problem(prerequisite, stack, now)?;
    Some(Unmet {
        name: name.clone(),
        message: format!(
            "prerequisite not satisfied for \"{name}\": {why}{}",
            stall_of(stack)
        ),
        request,
    })
}

fn unavailable(name: &str, error: &str) -> Unmet {
    Unmet {
        name: name.to_owned(),
        message: format!("unable to fetch prerequisite \"{name}\": {error}"),
        request: None,
    }
}

fn problem(
    prerequisite: &Prerequisite,
    stack: &Stack,
    now: Timestamp,
) -> Option<(&'static str, Option<StackEffect>)> {
    let status = stack.status.as_ref();
    let Some(last) = status.and_then(|status| status.last_update.as_ref()) else {
        return Some(("prerequisite has not run to completion", None));
    };
    let served = last.reconcile_request.as_deref().unwrap_or_default();
    if last.generation != stack.metadata.generation
        || served != request(stack)
        || finished_update::is_pre_update_refresh(last)
    {
        return Some(("prerequisite has not run to completion", None));
    }
    if last.state != Some(UpdateState::Succeeded) {
        return Some(("prerequisite failed", None));
    }
    let request = || request_run(stack, last);
    is_too_old(prerequisite, last, now).then(|| ("prerequisite is out of date", request()))
}

fn is_too_old(prerequisite: &Prerequisite, last: &LastUpdate, now: Timestamp) -> bool {
    let requirement = prerequisite.requirement.as_ref();
    let within = requirement.and_then(|requirement| requirement.succeeded_within_duration.as_ref());
    let (Some(within), Some(ended)) = (within, last.last_resync_time.as_ref()) else {
        return false;
    };
    let within = SignedDuration::try_from(within.get()).unwrap_or(SignedDuration::MAX);
    now.duration_since(ended.0) > within
}

/// The request has the same value for all Stacks that wait for the same result, so that it runs
/// once.
fn request_run(stack: &Stack, last: &LastUpdate) -> Option<StackEffect> {
    let value = format!("after-{}", last.name.as_deref().unwrap_or_default());
    let is_requested = request(stack) == value;
    (!is_requested).then(|| StackEffect::RequestPrerequisite {
        stack: Box::new(stack.clone()),
        value,
    })
}

/// Why the other Stack is stalled, if it is.
fn stall_of(stack: &Stack) -> String {
    let conditions = stack.status.as_ref().map(|status| &status.conditions);
    let stalled = conditions.and_then(|conditions| find(conditions, ConditionType::Stalled));
    let stalled = stalled.filter(|condition| condition.status == "True");
    stalled.map_or_else(String::new, |condition| {
        format!(
            " (it is stalled, {}: {})",
            condition.reason,
            brief(&condition.message)
        )
    })
}

/// Reports the cycle that leads from the Stack back to itself, if there is one.
fn cycle_message(evaluation: &StackEvaluation, stacks: &Prerequisites) -> Option<String> {
    let own = evaluation.observed.stack.metadata.name.as_deref()?;
    let path = path_back(own, &evaluation.observed.stack, stacks)?;
    Some(format!(
        "spec.prerequisites form a cycle: {own} -> {}; remove one of them",
        path.join(" -> ")
    ))
}

/// Searches depth first. It uses a list instead of the call stack, because a chain may be as long
/// as a namespace has Stacks.
fn path_back<'stacks>(
    own: &'stacks str,
    stack: &'stacks Stack,
    stacks: &'stacks Prerequisites,
) -> Option<Vec<&'stacks str>> {
    let mut visited = BTreeSet::new();
    let mut path = vec![(own, stack.spec.prerequisites.iter())];
    while let Some((_, prerequisites)) = path.last_mut() {
        let Some(next) = prerequisites.next().map(|next| next.name.as_str()) else {
            path.pop();
            continue;
        };
        if next == own {
            let between = path.iter().skip(1).map(|(name, _)| *name);
            return Some(between.chain([own]).collect());
        }
        if let Some(Ok(stack)) = stacks.get(next).filter(|_| visited.insert(next)) {
            path.push((next, stack.spec.prerequisites.iter()));
        }
    }
    None
}
