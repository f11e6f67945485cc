//! What the user is told who asks a run to stop.

use pulumi_engine_deploy::deployment::cancellation::Signal;

use crate::display::{
    self,
    palette::{Color, Colors},
};

/// Tells that a signal came, and what another one would do.
pub(super) fn tell(signal: Signal, before: usize, preview: bool, colors: Colors) {
    // the run stops as well if nobody reads this
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
    fn the_second_signal_ends_it() {
        let said = |signal, before, preview| words(signal, before, preview, Colors::Never);
        assert!(said(Signal::Interrupt, 0, false).contains("orphaned resources"));
        assert!(!said(Signal::Interrupt, 0, true).contains("orphaned resources"));
        assert_eq!(
            said(Signal::Terminate, 1, false),
            "SIGTERM received; terminating"
        );
    }
}
