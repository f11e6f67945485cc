//! The Stacks that come first.

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

/// The other Stack's own events end the wait; this is for one that was missed.
const LOOK_AGAIN: Duration = Duration::from_mins(5);

/// Waits until the Stacks that come first have succeeded. A Stack that goes waits for nobody.
pub(in crate::stack) fn wait(evaluation: &StackEvaluation) -> Option<StackStep> {
    let wanted = &evaluation.observed.stack.spec.prerequisites;
    if wanted.is_empty() || evaluation.observed.is_deleting() {
        return None;
    }
    let stacks = match evaluation
        .observed
        .prerequisites
        .or_read(|| StackRead::Prerequisites)
    {
        Ok(stacks) => stacks,
        Err(question) => return Some(question),
    };
    if let Some(circle) = circle(evaluation, stacks) {
        return Some(evaluation.refused_until_looked_at(circle, LOOK_AGAIN));
    }
    let unmet: Vec<Unmet> = wanted
        .iter()
        .filter_map(|wanted| unmet(wanted, stacks, evaluation.now))
        .collect();
    let message = message(&unmet)?;
    let requests = unmet.into_iter().filter_map(|unmet| unmet.request);
    let blocked = Blocked::Transient(StackReason::PrerequisiteNotSatisfied, message, LOOK_AGAIN);
    let status = evaluation.summarised(&blocked.summary());
    Some(evaluation.plan(status, requests, None, blocked.requeue()))
}

/// A Stack that is not ready yet.
struct Unmet {
    name: String,
    /// The whole sentence.
    sentence: String,
    /// What asks it to run again.
    request: Option<StackEffect>,
}

fn message(unmet: &[Unmet]) -> Option<String> {
    match unmet {
        [] => None,
        [one] => Some(one.sentence.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|unmet| unmet.name.as_str()).collect();
            Some(format!(
                "multiple prerequisites were not satisfied {}",
                names.join(", ")
            ))
        }
    }
}

fn unmet(wanted: &Prerequisite, stacks: &Prerequisites, now: Timestamp) -> Option<Unmet> {
    let name = &wanted.name;
    let stack = match stacks.get(name) {
        Some(Ok(stack)) => stack,
        Some(Err(error)) => return Some(unknown(name, error)),
        None => return Some(unknown(name, "it was not looked for")),
    };
    let (why, request) = problem(wanted, stack, now)?;
    Some(Unmet {
        name: name.clone(),
        sentence: format!(
            "prerequisite not satisfied for \"{name}\": {why}{}",
            trouble(stack)
        ),
        request,
    })
}

fn unknown(name: &str, error: &str) -> Unmet {
    Unmet {
        name: name.to_owned(),
        sentence: format!("unable to fetch prerequisite \"{name}\": {error}"),
        request: None,
    }
}

fn problem(
    wanted: &Prerequisite,
    stack: &Stack,
    now: Timestamp,
) -> Option<(&'static str, Option<StackEffect>)> {
    let status = stack.status.as_ref();
    let Some(last) = status.and_then(|status| status.last_update.as_ref()) else {
        return Some(("prerequisite has not run to completion", None));
    };
    let asked = last.reconcile_request.as_deref().unwrap_or_default();
    if last.generation != stack.metadata.generation
        || asked != request(stack)
        || finished_update::is_pre_update_refresh(last)
    {
        return Some(("prerequisite has not run to completion", None));
    }
    if last.state != Some(UpdateState::Succeeded) {
        return Some(("prerequisite failed", None));
    }
    is_too_old(wanted, last, now).then(|| ("prerequisite is out of date", ask_to_run(stack, last)))
}

fn is_too_old(wanted: &Prerequisite, last: &LastUpdate, now: Timestamp) -> bool {
    let requirement = wanted.requirement.as_ref();
    let within = requirement.and_then(|requirement| requirement.succeeded_within_duration.as_ref());
    let (Some(within), Some(ended)) = (within, last.last_resync_time.as_ref()) else {
        return false;
    };
    let within = SignedDuration::try_from(within.get()).unwrap_or(SignedDuration::MAX);
    now.duration_since(ended.0) > within
}

/// The same for all who wait for the same result, so that it runs once.
fn ask_to_run(stack: &Stack, last: &LastUpdate) -> Option<StackEffect> {
    let value = format!("after-{}", last.name.as_deref().unwrap_or_default());
    let asked = request(stack) == value;
    (!asked).then(|| StackEffect::RequestPrerequisite {
        stack: Box::new(stack.clone()),
        value,
    })
}

/// What the other Stack says of itself, so that nobody has to go and look.
fn trouble(stack: &Stack) -> String {
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

/// The way from the Stack back to itself, if there is one: no Stack on it could ever run.
fn circle(evaluation: &StackEvaluation, stacks: &Prerequisites) -> Option<String> {
    let own = evaluation.observed.stack.metadata.name.as_deref()?;
    let way = way_back(own, &evaluation.observed.stack, stacks)?;
    Some(format!(
        "spec.prerequisites form a circle in which nobody can be first: {own} -> {}; take one of them out",
        way.join(" -> ")
    ))
}

/// Depth first, on a list instead of the call stack: a chain may be as long as a namespace has Stacks.
fn way_back<'stacks>(
    own: &'stacks str,
    stack: &'stacks Stack,
    stacks: &'stacks Prerequisites,
) -> Option<Vec<&'stacks str>> {
    let mut seen = BTreeSet::new();
    let mut way = vec![(own, stack.spec.prerequisites.iter())];
    while let Some((_, wanted)) = way.last_mut() {
        let Some(next) = wanted.next().map(|next| next.name.as_str()) else {
            way.pop();
            continue;
        };
        if next == own {
            let between = way.iter().skip(1).map(|(name, _)| *name);
            return Some(between.chain([own]).collect());
        }
        if let Some(Ok(stack)) = stacks.get(next).filter(|_| seen.insert(next)) {
            way.push((next, stack.spec.prerequisites.iter()));
        }
    }
    None
}
