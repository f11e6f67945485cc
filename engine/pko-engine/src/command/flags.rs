//! Checks combinations of flags.

use anyhow::bail;

use super::operation::OperationKind;
use crate::args::OperationArgs;

/// Rejects flags that an operation does not have.
pub(super) fn check(kind: OperationKind, arguments: &OperationArgs) -> anyhow::Result<()> {
    let update = matches!(kind, OperationKind::Preview | OperationKind::Up);
    let wrong = [
        ("--preview-only", arguments.preview_only && update),
        (
            "--remove",
            arguments.remove && kind != OperationKind::Destroy,
        ),
        (
            "--exclude-protected",
            arguments.exclude_protected && kind != OperationKind::Destroy,
        ),
        (
            "--exclude-dependents",
            arguments.exclude_dependents && kind == OperationKind::Destroy,
        ),
        ("--replace", !arguments.replace.is_empty() && !update),
        (
            "--target-replace",
            !arguments.target_replace.is_empty() && !update,
        ),
        (
            "--clear-pending-creates",
            arguments.clear_pending_creates && kind != OperationKind::Refresh,
        ),
        (
            "--skip-pending-creates",
            arguments.skip_pending_creates && kind != OperationKind::Refresh,
        ),
        (
            "--import-pending-creates",
            !arguments.import_pending_creates.is_empty() && kind != OperationKind::Refresh,
        ),
    ];
    if let Some((flag, _)) = wrong.iter().find(|(_, wrong)| *wrong) {
        bail!("unknown flag: {flag}");
    }
    if !arguments.exclude.is_empty() && !arguments.target.is_empty() {
        bail!(
            "if any flags in the group [target exclude] are set none of the others can be; [exclude target] were all set"
        );
    }
    if kind == OperationKind::Preview && arguments.json {
        bail!(
            "flag `--json` is not supported by pulumi-engine for this command; `--event-log FILE` has all events of a preview"
        );
    }
    if kind != OperationKind::Preview && !arguments.yes && !arguments.preview_only {
        bail!(
            "--yes or --skip-preview must be passed in to proceed when running in non-interactive mode"
        );
    }
    Ok(())
}
