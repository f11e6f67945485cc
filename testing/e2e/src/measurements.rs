//! Times and memory on a real node, as a user sees them. Printed, never asserted.

use std::{
    env,
    time::{Duration, Instant},
};

use kube::api::DeleteParams;
use pko_api::Stack;
use serde_json::json;

use crate::{
    cli::{Cli, on_each_cli},
    pods::Process,
    stacks::{program, program_stack},
    test_env::{TestEnv, run_concurrently, run_exclusively},
};

/// Full measurements are repeated five times and run exclusively.
fn is_full_measurement() -> bool {
    env::var_os("PKO_FULL").is_some()
}

fn print_times(what: &str, mut times: Vec<Duration>) {
    // Meaningless beside other tests
    if !is_full_measurement() {
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

async fn create(env: &TestEnv<'_>, name: &str) {
    let stack = program_stack(name).destroy_on_finalize(true);
    env.create(stack.build()).await;
    env.wait_for_ready(name).await;
}

on_each_cli! {
    stack_times_and_memory_are_printed
    concurrent_stack_times_are_printed
}

/// How many Stacks are created, run again and deleted at once.
fn stack_count() -> usize {
    if is_full_measurement() { 20 } else { 2 }
}

async fn concurrent_stack_times_are_printed() {
    let test = async |env: &TestEnv<'_>| {
        let names: Vec<String> = (0..stack_count())
            .map(|number| format!("many-{number}"))
            .collect();
        for name in &names {
            env.create(program(name, &["one", "two"]).build()).await;
        }
        let start = Instant::now();
        for name in &names {
            // So that the node has room for all of them
            let resources = json!({ "requests": { "cpu": "10m", "memory": "32Mi" } });
            let stack = program_stack(name)
                .destroy_on_finalize(true)
                .set("/spec/workspaceTemplate/spec/resources", resources);
            env.create(stack.build()).await;
        }
        wait_for_all_ready(env, &names).await;
        print_times(
            "many Stacks created at once to Ready",
            vec![start.elapsed()],
        );
        let start = Instant::now();
        for name in &names {
            env.request_run(name, "again").await;
        }
        wait_for_all_ready(env, &names).await;
        print_times("another run of all", vec![start.elapsed()]);
        let start = Instant::now();
        let stacks = env.namespace.api::<Stack>();
        for name in &names {
            let parameters = DeleteParams::default();
            stacks.delete(name, &parameters).await.unwrap();
        }
        for name in &names {
            env.wait_for_deletion(name).await;
        }
        print_times("all deleted, destroyed and gone", vec![start.elapsed()]);
    };
    measure(test).await;
}

async fn wait_for_all_ready(env: &TestEnv<'_>, names: &[String]) {
    for name in names {
        env.wait_for_ready(name).await;
    }
}

/// Runs a measurement, exclusively if it is a full one.
async fn measure(test: impl AsyncFnOnce(&TestEnv<'_>)) {
    if is_full_measurement() {
        run_exclusively(test).await;
    } else {
        run_concurrently(test).await;
    }
}

async fn stack_times_and_memory_are_printed() {
    let rounds = if is_full_measurement() { 5 } else { 1 };
    let test = async |env: &TestEnv<'_>| {
        let mut times = [const { Vec::new() }; 4];
        for number in 0..rounds {
            let name = format!("demo-{number}");
            env.create(program(&name, &["one", "two"]).build()).await;
            let start = Instant::now();
            create(env, &name).await;
            times[0].push(start.elapsed());
            let start = Instant::now();
            env.request_run(&name, "again").await;
            env.wait_for_ready(&name).await;
            times[1].push(start.elapsed());
        }
        let agents = env.agents("demo-0");
        let agents: f64 = agents.iter().map(Process::megabytes).sum();
        let managers = Process::managers(&env.operator.cluster);
        let cli = Cli::of_this_test();
        println!("measured: {cli:?}: memory of an agent after its runs: {agents:.1} MB");
        println!(
            "measured: {cli:?}: memory of the operator: {:.1} MB",
            managers[0].megabytes()
        );
        for number in 0..rounds {
            let start = Instant::now();
            env.delete(&format!("demo-{number}"), &DeleteParams::default())
                .await;
            times[2].push(start.elapsed());
            // Its Program is still there, and maybe its pod.
            let start = Instant::now();
            create(env, &format!("demo-{number}")).await;
            times[3].push(start.elapsed());
            env.delete(&format!("demo-{number}"), &DeleteParams::default())
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
