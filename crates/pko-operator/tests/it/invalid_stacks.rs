//! Invalid Stacks that the API server accepts: the condition of each names what is wrong, and none
//! delays a valid one.

mod schema;
mod stacks;

use std::{collections::BTreeMap, env, time::Duration};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kube::{ResourceExt as _, api::DynamicObject};
use pko_api::Stack;
use pko_testkit::{
    ProgramBuilder, StackBuilder, TestNamespace,
    audit::AuditPosition,
    eventually,
    kstatus::{self, ConditionProtocol},
};
use serde_json::{Value, json};

use crate::{
    harness::{System, with_namespace},
    raw_objects,
    scripted_stacks::{credentials, ready},
};
use stacks::Generator;

/// So many that the API server has accepted, with `PKO_FULL=1`.
const ALL_STACKS: usize = 1000;
/// The same without it.
const SOME_STACKS: usize = 200;
/// Requests at a time.
const AT_ONCE: usize = 16;
/// How long writes for unchanged Stacks are counted.
const WATCHED: Duration = Duration::from_secs(20);
/// A try again may say something new, and so may its prerequisite.
const MOST_WRITES_EACH: usize = 3;

/// Creates Stacks until so many are accepted; gives how many were not.
async fn create(namespace: &TestNamespace) -> usize {
    let generator = Generator::new();
    let create = |number: usize| {
        let stack = generator.stack(number).to_string();
        async move {
            match raw_objects::create::<Stack>(namespace, &stack).await {
                Ok(()) => true,
                Err(kube::Error::Api(status)) if [400, 422].contains(&status.code) => false,
                Err(error) => panic!("{error}: {stack}"),
            }
        }
    };
    let wanted = match env::var_os("PKO_FULL") {
        Some(_) => ALL_STACKS,
        None => SOME_STACKS,
    };
    // It refuses some; if most, then the generator is no good.
    let accepted = stream::iter(0..2 * wanted).map(create).buffered(AT_ONCE);
    let mut accepted = std::pin::pin!(accepted);
    let (mut taken, mut refused) = (0, 0);
    while taken < wanted {
        match accepted.next().await {
            Some(true) => taken += 1,
            Some(false) => refused += 1,
            None => panic!("of {} Stacks {refused} were refused", 2 * wanted),
        }
    }
    refused
}

/// The true condition of a Stack, if it has a reason and a message.
fn stall_message(stack: &DynamicObject) -> Option<String> {
    let conditions = stack.data["status"]["conditions"].as_array()?;
    let said = |condition: &Value, field: &str| {
        let text = condition[field].as_str().unwrap_or_default();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let summaries = ["Stalled", "Reconciling", "Ready"];
    let mut summaries = summaries.iter().filter_map(|kind| {
        let is_it =
            |condition: &&Value| condition["type"] == *kind && condition["status"] == "True";
        let condition = conditions.iter().find(is_it)?;
        said(condition, "message")?;
        Some(format!("{kind} {}", said(condition, "reason")?))
    });
    summaries.next()
}

/// Waits until each Stack has a condition, and counts them by text.
async fn each_says_something(namespace: &TestNamespace) -> BTreeMap<String, usize> {
    let said = eventually("each Stack to have a condition", async || {
        let stacks = raw_objects::list::<Stack>(namespace).await;
        let stacks = stacks.map_err(|error| error.to_string())?;
        let mut counts = BTreeMap::new();
        for stack in &stacks {
            let Some(said) = stall_message(stack) else {
                let stack = serde_json::to_string(stack).unwrap();
                return Err(format!("{counts:?}, and without: {stack}"));
            };
            let object = serde_json::to_value(stack).unwrap();
            let now = Timestamp::now();
            let violations = kstatus::violations(&object, ConditionProtocol::ExactlyOne, now);
            if !violations.is_empty() {
                return Err(format!("{violations:?} in {object}"));
            }
            *counts.entry(said).or_default() += 1;
        }
        Ok(counts)
    });
    said.await.unwrap()
}

/// Nothing was ever applied for them, so each can be deleted even if it is broken.
async fn each_can_be_deleted(namespace: &TestNamespace) {
    let all = raw_objects::list::<Stack>(namespace).await.unwrap();
    let wrong = all.into_iter().map(|stack| stack.name_any());
    let wrong: Vec<String> = wrong.filter(|name| stacks::stays_wrong(name)).collect();
    let delete = |name: &String| {
        let name = name.clone();
        async move {
            let deleted = raw_objects::delete::<Stack>(namespace, &name).await;
            deleted.unwrap();
        }
    };
    let deleted = stream::iter(&wrong).map(delete).buffer_unordered(AT_ONCE);
    deleted.collect::<Vec<()>>().await;
    eventually("the Stacks to be gone", async || {
        let left = raw_objects::list::<Stack>(namespace).await;
        let left = left.map_err(|error| error.to_string())?;
        let left = left.into_iter().map(|stack| stack.name_any());
        let left: Vec<String> = left.filter(|name| wrong.contains(name)).collect();
        if left.is_empty() {
            Ok(())
        } else {
            Err(format!("{left:?}"))
        }
    })
    .await
    .unwrap();
}

async fn create_good(namespace: &TestNamespace, system: &System) {
    let stack = StackBuilder::new("good")
        .stack("dev")
        .backend(&system.backend())
        .program("good")
        .secret_env("PULUMI_CONFIG_PASSPHRASE", "credentials", "passphrase")
        .build();
    namespace.create_object(stack).await.unwrap();
}

/// How often the manager wrote to each Stack.
async fn writes_since(system: &System, mark: AuditPosition) -> BTreeMap<String, usize> {
    let writes = system.requests_since(mark).await.writes();
    let writes = writes.only(|request| request.resource.starts_with("stacks.pulumi.com"));
    let mut each = BTreeMap::new();
    for write in writes.iter() {
        *each.entry(write.name.clone()).or_default() += 1;
    }
    each
}

#[tokio::test]
async fn thousand_invalid_stacks_are_reported_and_block_nothing() {
    let system = System::start(&[]).await;
    with_namespace(&system, async |namespace| {
        // It parses what it lists, and `each_says_something` checks them all.
        namespace.skip_status_check();
        namespace.create_object(credentials()).await.unwrap();
        let program = ProgramBuilder::new("good").output("size", 4).build();
        namespace.create_object(program).await.unwrap();
        let refused = create(namespace).await;
        create_good(namespace, &system).await;
        ready(namespace, "good").await;
        let said = each_says_something(namespace).await;
        eprintln!("{refused} were refused; of the others: {said:#?}");

        let mark = system.plane.audit_position().await.unwrap();
        tokio::time::sleep(WATCHED).await;
        let writes = writes_since(&system, mark).await;
        let total: usize = writes.values().sum();
        let most = writes.iter().max_by_key(|(_, count)| **count);
        eprintln!("{total} writes in {WATCHED:?}, the most: {most:?}");
        assert!(
            writes.values().all(|count| *count <= MOST_WRITES_EACH),
            "{writes:?}"
        );
        each_says_something(namespace).await;
        each_can_be_deleted(namespace).await;
        let log = system.manager_log();
        assert!(!log.contains("panicked"), "the manager's log tells where");
    })
    .await;
}

#[test]
fn generated_stack_is_determined_by_its_number() {
    let (one, other) = (Generator::new(), Generator::new());
    for number in 0..100 {
        assert_eq!(one.stack(number), other.stack(number));
        assert_ne!(one.stack(number), one.stack(number + 1));
    }
    let circle: Vec<Value> = (0..6).map(|tens| one.stack(tens * 10 + 6)).collect();
    let next = |number: usize| circle[number]["spec"]["prerequisites"][0]["name"].clone();
    let name = |number: usize| circle[number]["metadata"]["name"].clone();
    assert_eq!([next(0), next(3), next(4)], [name(1), name(4), name(0)]);
    assert_eq!(json!(circle[0]["metadata"]["name"]), json!("bad-6"));
}
