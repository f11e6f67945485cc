//! Keeps responses within what a manager takes of an agent. Pure.

use pko_proto::{
    MAX_AGENT_HEADER_BYTES, MAX_RESULT_BYTES,
    run::{Run, RunEvent, RunResult, run_event},
};
use prost::Message as _;

use crate::pulumi::truncate_middle;

/// For the run around a result, and for the headers besides status and details.
const MARGIN_BYTES: usize = 4 * 1024;
/// For what a result that is too large keeps of each text.
const SHORT_TEXT_BYTES: usize = 64 * 1024;

pub(super) fn fit_run(mut run: Run) -> Run {
    if let Some(result) = &mut run.result {
        fit_result(result);
    }
    run
}

pub(super) fn fit_event(mut event: RunEvent) -> RunEvent {
    if let Some(run_event::Event::Result(result)) = &mut event.event {
        fit_result(result);
    }
    event
}

/// Leaves out the outputs of a result that is too large, and the middle of long texts if that is
/// not enough.
fn fit_result(result: &mut RunResult) {
    let limit = MAX_RESULT_BYTES - MARGIN_BYTES;
    let bytes = result.encoded_len();
    if bytes <= limit {
        return;
    }
    result.outputs.clear();
    result.notes.push(format!(
        "the outputs are not kept: the result of the run has {bytes} bytes with them, and the limit is {limit}; export fewer or smaller outputs"
    ));
    if result.encoded_len() <= limit {
        return;
    }
    let message = result.error.as_mut().map(|error| &mut error.message);
    for text in [&mut result.stdout, &mut result.stderr]
        .into_iter()
        .chain(message)
    {
        *text = truncate_middle(text, SHORT_TEXT_BYTES);
    }
    result.notes.truncate(100);
}

/// Leaves out the middle of a status text for which the trailers have no room. They have the text
/// twice: percent-encoded, and in the details in Base64.
pub(super) fn fit_status_text(text: &str, details_bytes: usize) -> String {
    let limit = usize::try_from(MAX_AGENT_HEADER_BYTES).unwrap_or(usize::MAX) - MARGIN_BYTES;
    let room = limit.saturating_sub(base64_bytes(details_bytes));
    let mut longest = text.len();
    let mut fitting = text.to_owned();
    while trailer_bytes(&fitting) > room && longest > 0 {
        longest = longest * 7 / 8;
        fitting = truncate_middle(text, longest);
    }
    fitting
}

fn trailer_bytes(text: &str) -> usize {
    let is_plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/,;=()[]'!*&+@$~|".contains(byte);
    let encoded = text.bytes().map(|byte| if is_plain(&byte) { 1 } else { 3 });
    encoded.sum::<usize>() + base64_bytes(text.len())
}

fn base64_bytes(bytes: usize) -> usize {
    bytes.div_ceil(3) * 4
}

#[cfg(test)]
mod tests {
    use pko_proto::agent::OutputValue;

    use super::*;

    fn with_output(bytes: usize) -> Run {
        let value = OutputValue {
            value: vec![b'1'; bytes],
            secret: false,
        };
        Run {
            result: Some(RunResult {
                outputs: [("big".to_owned(), value)].into(),
                stdout: "Updating".to_owned(),
                ..RunResult::default()
            }),
            ..Run::default()
        }
    }

    #[test]
    fn result_beyond_the_limit_has_a_note_instead_of_outputs() {
        let kept = fit_run(with_output(7 * 1024 * 1024));
        assert_eq!(kept, with_output(7 * 1024 * 1024));
        let cut = fit_run(with_output(9 * 1024 * 1024));
        assert!(cut.encoded_len() < MAX_RESULT_BYTES);
        let result = cut.result.unwrap();
        assert!(result.outputs.is_empty() && result.stdout == "Updating");
        assert!(
            result.notes[0].contains("the limit is 8384512; export"),
            "{:?}",
            result.notes
        );
    }

    #[test]
    fn long_texts_are_cut_if_they_are_too_much_themselves() {
        let long = RunResult {
            stdout: "x".repeat(MAX_RESULT_BYTES),
            stderr: "y".repeat(MAX_RESULT_BYTES),
            ..RunResult::default()
        };
        let event = RunEvent {
            sequence: 1,
            event: Some(run_event::Event::Result(long)),
        };
        assert!(fit_event(event).encoded_len() < MAX_RESULT_BYTES);
    }

    #[test]
    fn status_text_fits_into_the_trailers() {
        let limit = usize::try_from(MAX_AGENT_HEADER_BYTES).unwrap();
        for text in ["x".repeat(60_000), "\n é".repeat(20_000)] {
            let fitting = fit_status_text(&text, 1000);
            assert!(trailer_bytes(&fitting) + base64_bytes(1000) < limit);
            assert!(fitting.len() > 8 * 1024 && fitting.contains("bytes left out"));
            let (first, last) = (text.get(..100), text.get(text.len() - 100..));
            assert!(fitting.starts_with(first.unwrap()) && fitting.ends_with(last.unwrap()));
        }
        assert_eq!(fit_status_text("error: no", 0), "error: no");
    }
}
