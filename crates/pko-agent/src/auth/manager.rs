//! Judges a caller by a token that our manager signed. Asks nobody, so it needs no rights in the cluster.

use std::sync::Arc;

use pko_proto::token::{PublicKey, verify};
use tonic::Status;

use super::clock::{self, Clock};

/// Judges managers.
pub(super) struct ManagerAuthorizer {
    keys: Vec<PublicKey>,
    audiences: Vec<String>,
    clock: Arc<dyn Clock>,
}

impl ManagerAuthorizer {
    pub(super) fn new(keys: Vec<PublicKey>, audiences: Vec<String>) -> Self {
        Self {
            keys,
            audiences,
            clock: clock::system(),
        }
    }

    pub(super) fn judge(&self, token: &str) -> Result<(), Status> {
        let now = self.clock.now().wall;
        let claims = verify(token, &self.keys, &self.audiences, now);
        // The reason tells a forger nothing that it does not know, and a manager whose clock is wrong everything.
        claims
            .map(drop)
            .map_err(|error| Status::unauthenticated(format!("unauthenticated: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pko_proto::token::{Claims, SigningKey};

    use super::*;
    use crate::auth::clock::test::Manual;

    #[test]
    fn a_token_opens_until_it_ends() {
        let key = SigningKey::generate().unwrap();
        let clock = Manual::new();
        let authorizer = ManagerAuthorizer {
            keys: vec![key.public_key()],
            audiences: vec!["ws.ns".to_owned()],
            clock: clock.clone(),
        };
        let claims = Claims::new("ws.ns", clock.now().wall);
        let token = key.sign(&claims).unwrap();
        assert!(authorizer.judge(&token).is_ok());
        clock.pass(Duration::from_mins(6));
        let status = authorizer.judge(&token).unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        assert_eq!(status.message(), "unauthenticated: the token has expired");
    }
}
