//! Errors whose `Debug` form is readable, because tests unwrap them.

use std::error::Error;
use std::fmt;

/// Writes an error and its causes. One that repeats its cause's text is written once.
pub(crate) fn write(error: &dyn Error, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut last = error.to_string();
    formatter.write_str(&last)?;
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if text != last {
            write!(formatter, ": {text}")?;
        }
        last = text;
        cause = error.source();
    }
    Ok(())
}

/// `unwrap` and `?` in a test show the `Debug` form: here it is the text, not the fields.
macro_rules! debug_is_text {
    ($($error:ty),*) => {
        $(impl std::fmt::Debug for $error {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::error_text::write(self, formatter)
            }
        })*
    };
}

pub(crate) use debug_is_text;

#[cfg(test)]
mod tests {
    #[derive(thiserror::Error)]
    enum Outer {
        #[error("failed to cook")]
        Cook(#[source] std::io::Error),
        #[error(transparent)]
        Transparent(Box<Outer>),
    }
    debug_is_text!(Outer);

    #[test]
    fn debug_text_lists_causes_without_repeats() {
        let error = Outer::Cook(std::io::Error::other("no fire"));
        assert_eq!(format!("{error:?}"), "failed to cook: no fire");
        let error = Outer::Transparent(Box::new(error));
        assert_eq!(format!("{error:?}"), "failed to cook: no fire");
    }
}
