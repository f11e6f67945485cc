//! What it costs on a real node: times as a user sees them, memory of the programs in their pods. Printed, never judged.

use std::{
    env,
    time::{Duration, Instant},
};

use kube::api::DeleteParams;

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

fn tell(what: &str, mut times: Vec<Duration>) {
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
}

async fn times_and_memory_of_a_stack_are_told() {
    let rounds = if is_full() { 5 } else { 1 };
    let test = async |place: &Place<'_>| {
        let mut times = [const { Vec::new() }; 3];
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
        }
        let [created, again, gone] = times;
        tell("a Stack created to Ready", created);
        tell("a run again in the same pod", again);
        tell("a Stack deleted, destroyed and gone", gone);
    };
    if is_full() {
        alone(test).await;
    } else {
        beside_others(test).await;
    }
}
