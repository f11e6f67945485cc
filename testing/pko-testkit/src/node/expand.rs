//! `$(NAME)` in commands, arguments and variables, expanded as the kubelet does.

/// Replaces `$(NAME)` by the value of a variable and `$$` by `$`. Unknown names stay.
pub(super) fn expand(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            expanded.push('$');
            rest = after;
        } else if let Some((name, after)) = reference(rest) {
            expanded.push_str(&value(name).unwrap_or_else(|| format!("$({name})")));
            rest = after;
        } else {
            expanded.push('$');
        }
    }
    expanded + rest
}

fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_expand_like_kubelet() {
        let value = |name: &str| (name == "A").then(|| "a $(B)".to_owned());
        let table = [
            ("plain", "plain"),
            ("$(A)", "a $(B)"),
            ("x-$(A)-$(A)", "x-a $(B)-a $(B)"),
            ("$(MISSING)", "$(MISSING)"),
            ("$$(A)", "$(A)"),
            ("$$$(A)", "$a $(B)"),
            ("$A ${A} $", "$A ${A} $"),
            ("$(A", "$(A"),
        ];
        for (text, expected) in table {
            assert_eq!(expand(text, value), expected, "{text}");
        }
    }
}
