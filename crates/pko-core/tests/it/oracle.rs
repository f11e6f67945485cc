//! Kubernetes' own code, as a program that answers a question a line.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use pko_testkit::{Component, Components};
use serde_json::Value;

/// What Kubernetes says to each question; see `components/kubernetes/strategic-merge`.
pub(crate) fn oracle(questions: &[Value]) -> Vec<Value> {
    let program = Components::built_path(Component::StrategicMerge).unwrap();
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let questions: String = questions
        .iter()
        .map(|question| question.to_string() + "\n")
        .collect();
    let writer = std::thread::spawn(move || input.write_all(questions.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}
