//! Details of git errors: the credentials used, the limit exceeded, the redirect rejected.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    None,
    Address,
    Basic,
    Token,
    GithubApp,
    Ssh,
}

impl fmt::Display for CredentialKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "no credentials",
            Self::Address => "the user and password of its address",
            Self::Basic => "a user and password",
            Self::Token => "an access token",
            Self::GithubApp => "a GitHub App's token",
            Self::Ssh => "an SSH key",
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectRefusal {
    #[error("credentials are not sent to another host; use that address directly if it is correct")]
    CredentialsElsewhere,
    #[error("the redirect downgrades https to http")]
    Downgrade,
    #[error("too many redirects")]
    TooMany,
    #[error("the target is not a repository; it may be a login page")]
    NotARepository,
    /// An address that is reachable only from this machine.
    #[error("the target is an internal address")]
    Internal,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    #[error("more than {0} references")]
    References(usize),
    #[error("a list of references longer than {0} bytes")]
    ReferenceBytes(u64),
    #[error("a pack larger than {0} bytes; a shallow clone may be smaller")]
    PackBytes(u64),
    #[error("an object larger than {0} bytes")]
    ObjectBytes(u64),
    #[error("more than {0} files and folders in one commit")]
    Entries(u64),
    #[error("more than {0} bytes in the files of one commit")]
    CheckoutBytes(u64),
    #[error("submodules within submodules, more than {0} deep")]
    SubmoduleDepth(u32),
}
