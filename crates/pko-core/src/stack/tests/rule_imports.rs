//! Rules call no other rules: what they share is in `facts` and `outcome`.

use std::{fs, path::Path};

#[test]
fn rules_are_used_by_their_table_only() {
    let stack = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/stack");
    let mut rules = 0;
    for folder in ["", "rules", "facts", "desired", "check", "source"] {
        for entry in fs::read_dir(stack.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs")
                || path == stack.join("mod.rs")
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            assert!(!text.contains("rules::"), "{path:?} uses a rule");
            if folder == "rules" {
                rules += 1;
                assert!(!text.contains("super::"), "{path:?} may use another rule");
            }
        }
    }
    assert!(rules > 5, "{rules} files of rules");
}
