//! The messages after a signal.

use pulumi_engine_deploy::deployment::cancellation::Signal;

use crate::display::{
    self,
    palette::{Color, Colors},
};

/// Prints that a signal arrived, and what another one would do.
pub(super) fn tell(signal: Signal, before: usize, preview: bool, colors: Colors) {
    // the run stops even if this cannot be printed
    _ = display::line(&words(signal, before, preview, colors));
}

fn words(signal: Signal, before: usize, preview: bool, colors: Colors) -> String {
    let (name, again) = match signal {
        Signal::Interrupt => ("^C", "press ^C again"),
        Signal::Terminate => ("SIGTERM", "send SIGTERM again"),
    };
    if before > 0 {
        return colors.paint(Color::BrightRed, &format!("{name} received; terminating"));
    }
    let mut text = format!(
        "{name} received; cancelling. If you would like to terminate immediately, {again}."
    );
    if !preview {
        let note = "Note that terminating immediately may lead to orphaned resources and other inconsistencies.";
        text = format!("{text}\n{}", colors.paint(Color::BrightRed, note));
    }
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interruption_second_signal_ends_run() {
        let said = |signal, before, preview| words(signal, before, preview, Colors::Never);
        assert!(said(Signal::Interrupt, 0, false).contains("orphaned resources"));
        assert!(!said(Signal::Interrupt, 0, true).contains("orphaned resources"));
        assert_eq!(
            said(Signal::Terminate, 1, false),
            "SIGTERM received; terminating"
        );
    }
}
