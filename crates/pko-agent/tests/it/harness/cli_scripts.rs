//! Scripts for the operations of the stand-in.

use pko_testkit::{Interrupt, Reply};
use serde_json::json;

/// Succeeds with four events and plain outputs.
pub(crate) fn simple() -> Reply {
    let outputs = json!({"type": "pulumi:pulumi:Stack", "new": {"outputs": {"size": 4}}});
    Reply::new()
        .event(json!({"sequence": 0, "preludeEvent": {"config": {}}}))
        .event(json!({"sequence": 1, "resOutputsEvent": {"metadata": outputs}}))
        .event(json!({"sequence": 2, "summaryEvent": {"resourceChanges": {"create": 2}}}))
        .event(json!({"sequence": 3, "cancelEvent": {}}))
        .prints("Updating (dev):\n")
        .prints("View Live: https://example.com/updates/1\n")
}

/// Succeeds with a secret output.
pub(crate) fn secret() -> Reply {
    let secret = json!({
        "4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270",
        "ciphertext": "[secret]"
    });
    let outputs = json!({"password": secret, "size": 4});
    let metadata = json!({"type": "pulumi:pulumi:Stack", "new": {"outputs": outputs}});
    Reply::new().event(json!({"resOutputsEvent": {"metadata": metadata}}))
}

/// Sends two events, waits for the file `gate`, and sends one more.
pub(crate) fn gated() -> Reply {
    Reply::new()
        .event(json!({"sequence": 0}))
        .event(json!({"sequence": 1}))
        .waits_for("gate")
        .event(json!({"sequence": 2}))
        .on_interrupt(Interrupt::Die)
}

/// Exits on interrupt, with the documented code.
pub(crate) fn obedient() -> Reply {
    let interrupt = Interrupt::Obey { after: 0, code: 8 };
    Reply::new()
        .event(json!({"sequence": 0}))
        .hangs()
        .on_interrupt(interrupt)
}

/// Ignores interrupts.
pub(crate) fn stubborn() -> Reply {
    obedient().on_interrupt(Interrupt::Ignore)
}
