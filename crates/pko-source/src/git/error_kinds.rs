//! What errors are made of: who asked, what was too much, why a redirect is not followed.

use std::fmt;

/// What was shown to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialKind {
    /// Nothing
    None,
    /// What the address has in it
    Address,
    /// A user and a password
    Basic,
    /// A personal access token
    Token,
    /// A token for an app of GitHub's
    GithubApp,
    /// A private key
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

/// Why we don't go where a server sends us.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectRefusal {
    /// Credentials are for the server that they were given for.
    #[error("credentials are not sent to another host; use that address if it is right")]
    CredentialsElsewhere,
    /// From TLS to none.
    #[error("it leads from https to http")]
    Downgrade,
    /// On and on.
    #[error("there are too many redirects")]
    TooMany,
    /// Not a repository.
    #[error("that is not the same repository elsewhere; is it a login page?")]
    NotARepository,
    /// An address that only this machine can reach.
    #[error("that address is for this machine alone")]
    Internal,
}

/// More than we take, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// Too many references.
    #[error("more than {0} references")]
    References(usize),
    /// Too long an answer.
    #[error("a list of references longer than {0} bytes")]
    ReferenceBytes(u64),
    /// Too much history.
    #[error("a pack larger than {0} bytes; a shallow clone may be smaller")]
    PackBytes(u64),
    /// One file that is too large.
    #[error("an object larger than {0} bytes")]
    ObjectBytes(u64),
    /// Too many files.
    #[error("more than {0} files and folders in one commit")]
    Entries(u64),
    /// Too large files.
    #[error("more than {0} bytes in the files of one commit")]
    CheckoutBytes(u64),
    /// Submodules in submodules.
    #[error("submodules within submodules, more than {0} deep")]
    SubmoduleDepth(u32),
}
