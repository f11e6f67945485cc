//! Where built programs are kept; pure.

use std::path::PathBuf;

use super::Surroundings;

/// `$PKO_CACHE`, else a folder of ours in the user's cache directory.
pub(super) fn directory(surroundings: &Surroundings) -> Option<PathBuf> {
    if let Some(cache) = &surroundings.cache {
        return Some(cache.into());
    }
    let user_cache = surroundings.user_cache.as_ref().map(PathBuf::from);
    Some(user_cache.or_else(|| of_home(surroundings))?.join("pko"))
}

fn of_home(surroundings: &Surroundings) -> Option<PathBuf> {
    let inside = if cfg!(target_os = "macos") {
        "Library/Caches"
    } else {
        ".cache"
    };
    Some(surroundings.home.as_ref()?.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_specific_setting_wins() {
        let mut surroundings = Surroundings {
            cache: Some("/own".into()),
            user_cache: Some("/cache".into()),
            home: Some("/home/me".into()),
            ..Surroundings::default()
        };
        assert_eq!(directory(&surroundings), Some("/own".into()));
        surroundings.cache = None;
        assert_eq!(directory(&surroundings), Some("/cache/pko".into()));
        surroundings.user_cache = None;
        let home = directory(&surroundings).unwrap();
        assert!(
            home.starts_with("/home/me") && home.ends_with("pko"),
            "{}",
            home.display()
        );
        surroundings.home = None;
        assert_eq!(directory(&surroundings), None);
    }
}
