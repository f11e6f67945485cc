//! What it costs on a real node: times as a user sees them, memory of the programs in their pods. Printed, never judged.

use std::{
    env,
    time::{Duration, Instant},
};

use kube::api::DeleteParams;
use pko_api::Stack;
use serde_json::json;

use crate::{
    cli::{Cli, on_each_cli},
    place::{Place, alone, beside_others},
    pods::Process,
    stacks::{program, program_stack},
};

/// Whether figures are to count: then each is measured five times while no other test runs.
fn is_full() -> bool {
    env::var_os("PKO_FULL").is_some()
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    // Beside other tests they say nothing
    if !is_full() {
        return;
    }
    times.sort();
    let [middle, least, most] = [times[times.len() / 2], times[0], times[times.len() - 1]];
    println!(
        "measured: {:?}: {what}: {:.1} s ({:.1} to {:.1})",
        Cli::of_this_test(),
        middle.as_secs_f64(),
        least.as_secs_f64(),
        most.as_secs_f64()
    );
}

async fn create(place: &Place<'_>, name: &str) {
    let stack = program_stack(name).destroy_on_finalize(true);
    place.create(stack.build()).await;
    place.ready(name).await;
}

on_each_cli! {
    times_and_memory_of_a_stack_are_told
    times_of_many_stacks_at_once_are_measured
}

/// How many Stacks are created, run again and deleted at once.
fn many() -> usize {
    if is_full() { 20 } else { 2 }
}

async fn times_of_many_stacks_at_once_are_measured() {
    let test = async |place: &Place<'_>| {
        let names: Vec<String> = (0..many()).map(|number| format!("many-{number}")).collect();
        for name in &names {
            place.create(program(name, &["one", "two"]).build()).await;
        }
        let start = Instant::now();
        for name in &names {
            // So that the node has room for all of them
            let resources = json!({ "requests": { "cpu": "10m", "memory": "32Mi" } });
            let stack = program_stack(name)
                .destroy_on_finalize(true)
                .set("/spec/workspaceTemplate/spec/resources", resources);
            place.create(stack.build()).await;
        }
        all_ready(place, &names).await;
        print_times(
            "many Stacks created at once to Ready",
            vec![start.elapsed()],
        );
        let start = Instant::now();
        for name in &names {
            place.request(name, "again").await;
        }
        all_ready(place, &names).await;
        print_times("another run of all", vec![start.elapsed()]);
        let start = Instant::now();
        let stacks = place.namespace.api::<Stack>();
        for name in &names {
            let parameters = DeleteParams::default();
            stacks.delete(name, &parameters).await.unwrap();
        }
        for name in &names {
            place.gone(name).await;
        }
        print_times("all deleted, destroyed and gone", vec![start.elapsed()]);
    };
    measure(test).await;
}

async fn all_ready(place: &Place<'_>, names: &[String]) {
    for name in names {
        place.ready(name).await;
    }
}

/// Runs a measurement: alone where its figures are to count.
async fn measure(test: impl AsyncFnOnce(&Place<'_>)) {
    if is_full() {
        alone(test).await;
    } else {
        beside_others(test).await;
    }
}

async fn times_and_memory_of_a_stack_are_told() {
    let rounds = if is_full() { 5 } else { 1 };
    let test = async |place: &Place<'_>| {
        let mut times = [const { Vec::new() }; 4];
        for number in 0..rounds {
            let name = format!("demo-{number}");
            place.create(program(&name, &["one", "two"]).build()).await;
            let start = Instant::now();
            create(place, &name).await;
            times[0].push(start.elapsed());
            let start = Instant::now();
            place.request(&name, "again").await;
            place.ready(&name).await;
            times[1].push(start.elapsed());
        }
        let agents = place.agents("demo-0");
        let agents: f64 = agents.iter().map(Process::megabytes).sum();
        let managers = Process::managers(&place.system.cluster);
        let cli = Cli::of_this_test();
        println!("measured: {cli:?}: memory of an agent after its runs: {agents:.1} MB");
        println!(
            "measured: {cli:?}: memory of the operator: {:.1} MB",
            managers[0].megabytes()
        );
        for number in 0..rounds {
            let start = Instant::now();
            place
                .delete(&format!("demo-{number}"), &DeleteParams::default())
                .await;
            times[2].push(start.elapsed());
            // Its Program is still there, and maybe its pod.
            let start = Instant::now();
            create(place, &format!("demo-{number}")).await;
            times[3].push(start.elapsed());
            place
                .delete(&format!("demo-{number}"), &DeleteParams::default())
                .await;
        }
        let [created, again, gone, recreated] = times;
        print_times("a Stack created to Ready", created);
        print_times("a run again in the same pod", again);
        print_times("a Stack deleted, destroyed and gone", gone);
        print_times(
            "a Stack created again under the same name to Ready",
            recreated,
        );
    };
    measure(test).await;
}
