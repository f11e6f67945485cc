//! Messages of the kubelet and the container runtime.

use std::io;
use std::path::Path;

/// How much of a log becomes a termination message: bytes and lines.
const LOG_BYTES: usize = 2048;
const LOG_LINES: usize = 80;
const OWN_BYTES: usize = 4096;
/// A kubelet's pauses before it starts a container again, in seconds.
const FIRST_BACK_OFF: u32 = 10;
const LONGEST_BACK_OFF: u32 = 300;

/// The message for a container in back-off. `pod` is `namespace/name`.
pub(super) fn back_off(failures: u32, container: &str, pod: &str, uid: &str) -> String {
    let (namespace, name) = pod.split_once('/').unwrap_or(("", pod));
    let seconds = FIRST_BACK_OFF.saturating_mul(2_u32.saturating_pow(failures));
    let seconds = seconds.min(LONGEST_BACK_OFF);
    let pause = match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    };
    format!(
        "back-off {pause} restarting failed container={container} pod={name}_{namespace}({uid})"
    )
}

/// The message for a missing image.
pub(super) fn no_image(image: &str) -> String {
    format!(
        "failed to pull and unpack image \"{image}\": failed to resolve reference \"{image}\": \
         {image}: not found"
    )
}

/// The same during back-off.
pub(super) fn no_image_again(image: &str) -> String {
    format!(
        "Back-off pulling image \"{image}\": ErrImagePull: {}",
        no_image(image)
    )
}

/// Why a program did not start.
pub(super) fn cannot_run(program: &Path, error: &io::Error) -> String {
    let program = program.display();
    format!("failed to create containerd task: exec: \"{program}\": {error}")
}

/// The contents of a termination log.
pub(super) fn termination_message(file: &[u8]) -> Option<String> {
    let file = file.get(..OWN_BYTES).unwrap_or(file);
    (!file.is_empty()).then(|| String::from_utf8_lossy(file).into_owned())
}

/// The end of a log: whole lines as far as they fit.
pub(super) fn log_tail(log: &[u8]) -> Option<String> {
    let start = log.len().saturating_sub(LOG_BYTES);
    let tail = String::from_utf8_lossy(log.get(start..).unwrap_or(log));
    let lines: Vec<&str> = tail.split_inclusive('\n').collect();
    let skipped = lines.len().saturating_sub(LOG_LINES);
    let text: String = lines.into_iter().skip(skipped).collect();
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn back_off_message_matches_kubelet() {
        let table = [
            (0, "10s"),
            (1, "20s"),
            (3, "1m20s"),
            (9, "5m0s"),
            (99, "5m0s"),
        ];
        for (failures, pause) in table {
            assert_eq!(
                back_off(failures, "pulumi", "team/demo-0", "u-1"),
                format!("back-off {pause} restarting failed container=pulumi pod=demo-0_team(u-1)")
            );
        }
    }

    #[test]
    fn termination_message_is_the_log_tail() {
        assert_eq!(log_tail(b""), None);
        assert_eq!(log_tail(b"a\nb\n").as_deref(), Some("a\nb\n"));
        let many: Vec<String> = (0..100).map(|line| line.to_string()).collect();
        let many = many.join("\n") + "\n";
        let end = log_tail(many.as_bytes()).unwrap();
        assert!(end.starts_with("20\n") && end.ends_with("99\n"), "{end}");
        let long = "x".repeat(5000);
        assert_eq!(log_tail(long.as_bytes()).unwrap().len(), LOG_BYTES);
        assert_eq!(
            termination_message(long.as_bytes()).unwrap().len(),
            OWN_BYTES
        );
        assert_eq!(termination_message(b""), None);
    }
}
