//! Replies for common failures, with the texts that the real CLI printed.

use super::Reply;

/// Pulumi Cloud's response during another update. The transcripts have no Pulumi Cloud.
const CONFLICT: &str = "error: [409] Conflict: Another update is currently in progress.\n\
    To learn more about possible reasons and resolution, visit \
    https://www.pulumi.com/docs/troubleshooting/#conflict\n";

/// Pulumi Cloud's response to an invalid token.
const BAD_TOKEN: &str = "error: [401] Unauthorized: No credentials provided or are invalid.\n";

impl Reply {
    /// Fails with a text on standard error.
    #[must_use]
    pub fn fails(code: i32, stderr: &str) -> Self {
        Self::new().prints_error(stderr).exits(code)
    }

    /// Another update holds the lock of a file backend.
    #[must_use]
    pub fn locked() -> Self {
        let text = include_str!("../../transcripts/33-up-locked/stderr.txt");
        Self::fails(1, text)
    }

    /// Another update is running in Pulumi Cloud.
    #[must_use]
    pub fn conflict() -> Self {
        Self::fails(255, CONFLICT)
    }

    /// Pulumi Cloud rejects the access token.
    #[must_use]
    pub fn bad_token() -> Self {
        Self::fails(1, BAD_TOKEN)
    }

    /// There is no access token.
    #[must_use]
    pub fn no_token() -> Self {
        let text = include_str!("../../transcripts/37-no-backend-token/stderr.txt");
        Self::fails(3, text)
    }

    /// The passphrase is not the stack's.
    #[must_use]
    pub fn wrong_passphrase() -> Self {
        let text = include_str!("../../transcripts/32-wrong-passphrase/stderr.txt");
        Self::fails(1, text)
    }

    #[must_use]
    pub fn missing_passphrase() -> Self {
        let text = include_str!("../../transcripts/62-missing-passphrase/stderr.txt");
        Self::fails(1, text)
    }

    /// A program in Go has no `go.mod`; the transcripts' CLI has no Go.
    #[must_use]
    pub fn no_go_module() -> Self {
        let text = "error: installing dependencies: `go mod tidy` failed to install dependencies: \
                    go: go.mod file not found in current directory or any parent directory; see \
                    'go help modules': exit status 1\n";
        Self::fails(1, text)
    }
}
