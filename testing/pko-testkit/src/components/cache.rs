//! The location of the cache folder.

use std::path::PathBuf;

use super::BuildEnvironment;

/// `$PKO_CACHE`, or `pko` in the user's cache directory.
pub(super) fn directory(environment: &BuildEnvironment) -> Option<PathBuf> {
    if let Some(cache) = &environment.cache {
        return Some(cache.into());
    }
    let user_cache = environment.user_cache.as_ref().map(PathBuf::from);
    Some(
        user_cache
            .or_else(|| user_cache_folder(environment))?
            .join("pko"),
    )
}

fn user_cache_folder(environment: &BuildEnvironment) -> Option<PathBuf> {
    let inside = if cfg!(target_os = "macos") {
        "Library/Caches"
    } else {
        ".cache"
    };
    Some(environment.home.as_ref()?.join(inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_folder_prefers_more_specific_setting() {
        let mut environment = BuildEnvironment {
            cache: Some("/own".into()),
            user_cache: Some("/cache".into()),
            home: Some("/home/me".into()),
            ..BuildEnvironment::default()
        };
        assert_eq!(directory(&environment), Some("/own".into()));
        environment.cache = None;
        assert_eq!(directory(&environment), Some("/cache/pko".into()));
        environment.user_cache = None;
        let home = directory(&environment).unwrap();
        assert!(
            home.starts_with("/home/me") && home.ends_with("pko"),
            "{}",
            home.display()
        );
        environment.home = None;
        assert_eq!(directory(&environment), None);
    }
}
