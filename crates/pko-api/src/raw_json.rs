//! Splits JSON text without recursion.
//!
//! The API server stores objects with ten thousand levels. A recursive parser fails on such an
//! object, and with it on the whole list. So an object is cut out of its list and measured before
//! it is parsed.

/// The cost of parsing and storing a JSON value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonSize {
    /// The length of the text.
    pub bytes: usize,
    /// 0 for a scalar, 1 for `[]`, 2 for `[[]]`.
    pub depth: usize,
    /// The approximate number of values: separators and brackets.
    pub values: usize,
}

/// The size of a JSON value. Invalid JSON also has a size.
#[must_use]
pub fn measure(json: &str) -> JsonSize {
    let mut size = JsonSize {
        bytes: json.len(),
        ..JsonSize::default()
    };
    let mut position = Position::default();
    for byte in json.bytes() {
        match position.advance(byte) {
            Token::Open => {
                size.values += 1;
                size.depth = size.depth.max(position.open);
            }
            Token::Separator => size.values += 1,
            Token::Other => {}
        }
    }
    size
}

/// The fields of a JSON object: the raw names without quotes, and the texts of the values. `None`
/// if the text is not an object.
#[must_use]
pub fn fields(json: &str) -> Option<Vec<(&str, &str)>> {
    let members = members(json, '{', '}')?;
    members.into_iter().map(field).collect()
}

/// The items of a JSON array, each as text. `None` if the text is not an array.
#[must_use]
pub fn items(json: &str) -> Option<Vec<&str>> {
    members(json, '[', ']')
}

#[must_use]
pub fn field_of<'json>(fields: &[(&str, &'json str)], name: &str) -> Option<&'json str> {
    let mut values = fields.iter().filter(|(found, _)| *found == name);
    values.next().map(|(_, value)| *value)
}

fn members(json: &str, open: char, close: char) -> Option<Vec<&str>> {
    let inner = json.trim().strip_prefix(open)?.strip_suffix(close)?;
    let mut position = Position::default();
    let (mut members, mut start) = (Vec::new(), 0);
    for (index, byte) in inner.bytes().enumerate() {
        if position.advance(byte) == Token::Separator && position.open == 0 {
            members.push(inner.get(start..index)?.trim());
            start = index + 1;
        }
    }
    let last = inner.get(start..)?.trim();
    if !last.is_empty() {
        members.push(last);
    }
    Some(members)
}

fn field(member: &str) -> Option<(&str, &str)> {
    let rest = member.strip_prefix('"')?;
    let mut is_escaped = false;
    let end = rest.bytes().position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    })?;
    let (name, value) = (rest.get(..end)?, rest.get(end + 1..)?);
    Some((name, value.trim_start().strip_prefix(':')?.trim()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Separator,
    Other,
}

/// The state of a scan through JSON text.
#[derive(Default)]
struct Position {
    /// The number of open brackets.
    open: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Position {
    fn advance(&mut self, byte: u8) -> Token {
        if self.in_string {
            self.in_string = byte != b'"' || self.is_escaped;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
            return Token::Other;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.open += 1;
                return Token::Open;
            }
            b'}' | b']' => self.open = self.open.saturating_sub(1),
            b',' => return Token::Separator,
            _ => {}
        }
        Token::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_items_are_cut_at_their_own_level() {
        let json =
            r#" { "a": {"b": [1, {"c": "},\"]"}]} , "d\"e" :"x,y", "f":[ ], "g" : -1.5e3 } "#;
        assert_eq!(
            fields(json).unwrap(),
            [
                ("a", r#"{"b": [1, {"c": "},\"]"}]}"#),
                ("d\\\"e", r#""x,y""#),
                ("f", "[ ]"),
                ("g", "-1.5e3"),
            ]
        );
        assert_eq!(items("[1,[2,3] , {} ]").unwrap(), ["1", "[2,3]", "{}"]);
        assert_eq!(fields("{}").unwrap(), []);
        assert_eq!(items(" [ ] ").unwrap(), [""; 0]);
    }

    #[test]
    fn text_that_is_no_object_has_no_fields() {
        for json in [
            "", "null", "[]", "1", "{", "{1}", r#"{"a"}"#, r#"{"a}"#, "{a:1}",
        ] {
            assert_eq!(fields(json), None, "{json}");
        }
    }

    #[test]
    fn size_counts_levels_and_values_outside_of_strings() {
        let size = |json| {
            let size = measure(json);
            (size.depth, size.values)
        };
        assert_eq!(size("1"), (0, 0));
        assert_eq!(size(r#""[[[,,,\"{{{""#), (0, 0));
        assert_eq!(size(r#"{"a":[1,2,{}],"b":"x"}"#), (3, 6));
    }

    #[test]
    fn size_of_ten_thousand_levels_needs_no_stack() {
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        assert_eq!(measure(&deep).depth, 10_000);
        assert_eq!(items(&deep).unwrap().len(), 1);
    }
}
