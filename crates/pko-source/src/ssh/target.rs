//! The command to run and the server to run it on. Does no I/O.

use super::{DEFAULT_PORT, SshError};

const DEFAULT_USER: &str = "git";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshTarget {
    /// Without brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    /// Interpreted by the server's shell.
    pub command: String,
}

impl SshTarget {
    /// `git-upload-pack` for a repository. A path that starts with `/~` is relative to a home
    /// directory.
    pub fn upload_pack(
        host: &str,
        port: Option<u16>,
        user: Option<&str>,
        path: &str,
    ) -> Result<Self, SshError> {
        let path = if path.starts_with("/~") {
            path.trim_start_matches('/')
        } else {
            path
        };
        if path.is_empty() || path.starts_with('-') || path.contains('\0') {
            return Err(SshError::Path);
        }
        let host = host.strip_prefix('[').unwrap_or(host);
        let host = host.strip_suffix(']').unwrap_or(host);
        let user = user.filter(|user| !user.is_empty());
        Ok(Self {
            host: host.to_owned(),
            port: port.unwrap_or(DEFAULT_PORT),
            user: user.unwrap_or(DEFAULT_USER).to_owned(),
            command: format!("git-upload-pack {}", quoted(path)),
        })
    }

    pub(super) fn address(&self) -> String {
        let Self { host, port, .. } = self;
        match (*port, host.contains(':')) {
            (DEFAULT_PORT, _) => host.clone(),
            (_, true) => format!("[{host}]:{port}"),
            (_, false) => format!("{host}:{port}"),
        }
    }

    pub(super) fn program(&self) -> String {
        let word = self.command.split_whitespace().next();
        word.unwrap_or_default().to_owned()
    }
}

/// Quotes a word for a shell. `!` is escaped separately, for csh.
fn quoted(text: &str) -> String {
    let inner = text.replace('\'', r"'\''").replace('!', r"'\!'");
    format!("'{inner}'")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    fn target(path: &str) -> Result<SshTarget, SshError> {
        SshTarget::upload_pack("git.example.com", None, None, path)
    }

    #[test]
    fn ssh_target_takes_user_and_port_from_address() {
        let usual = target("/team/app.git").unwrap();
        assert_eq!((usual.user.as_str(), usual.port), ("git", 22));
        assert_eq!(usual.command, "git-upload-pack '/team/app.git'");
        assert_eq!(usual.address(), "git.example.com");
        let other = SshTarget::upload_pack("[::1]", Some(2222), Some("me"), "/~me/app").unwrap();
        assert_eq!((other.user.as_str(), other.port), ("me", 2222));
        assert_eq!(other.command, "git-upload-pack '~me/app'");
        assert_eq!(
            (other.address(), other.host.as_str()),
            ("[::1]:2222".to_owned(), "::1")
        );
        let empty = SshTarget::upload_pack("h", Some(2222), Some(""), "/a").unwrap();
        assert_eq!(
            (empty.user.as_str(), empty.address()),
            ("git", "h:2222".to_owned())
        );
        assert_eq!(empty.program(), "git-upload-pack");
    }

    #[test]
    fn ssh_target_path_is_one_shell_word() {
        for path in [
            "/plain",
            "/with space",
            "/it's",
            "/'; touch /tmp/pwned; '",
            "/$(id) `id` $HOME",
            "/new\nline",
            "/back\\slash",
            "/!bang",
            "/\"double\"",
            "/ä-ö",
            "/*",
        ] {
            let command = target(path).unwrap().command;
            let words = command.replace("git-upload-pack", "printf '<%s>'");
            let shell = Command::new("sh").args(["-c", &words]).output().unwrap();
            assert_eq!(
                String::from_utf8(shell.stdout).unwrap(),
                format!("<{path}>")
            );
        }
    }

    #[test]
    fn ssh_target_option_like_path_is_rejected() {
        for path in ["", "--upload-pack=id", "-x", "/a\0b"] {
            assert_eq!(target(path), Err(SshError::Path), "{path:?}");
        }
    }
}
