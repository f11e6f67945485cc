use super::*;

#[test]
fn diagnostic_shows_column_if_known() {
    let place = Position { line: 1, column: 4 };
    let shown = diagnostic(&Diagnostic::error(place, "wrong"), "Main.yaml", "a: b");
    assert!(shown.contains("on Main.yaml line 1, column 4:"), "{shown}");
}

#[test]
fn diagnostic_shows_source_line() {
    let shown = diagnostic(
        &Diagnostic::error(2, "no such name"),
        "Pulumi.yaml",
        "a: 1\nb: ${c}\n",
    );
    assert_eq!(
        shown,
        "no such name\n\n  on Pulumi.yaml line 2:\n\n   2: b: ${c}\n"
    );
}
