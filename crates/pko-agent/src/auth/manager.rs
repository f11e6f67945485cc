//! `--auth-mode manager`: verifies tokens that our manager signed. It makes no requests, so it
//! needs no rights in the cluster.

use jiff::Timestamp;
use pko_auth::token::{PublicKey, verify};
use tonic::Status;

pub(super) struct ManagerAuthorizer {
    keys: Vec<PublicKey>,
    audiences: Vec<String>,
}

impl ManagerAuthorizer {
    pub(super) fn new(keys: Vec<PublicKey>, audiences: Vec<String>) -> Self {
        Self { keys, audiences }
    }

    /// The status includes the reason: a manager with a wrong clock needs it, and it is of no use
    /// to a forger.
    pub(super) fn authorize(&self, token: &str, now: Timestamp) -> Result<(), Status> {
        let claims = verify(token, &self.keys, &self.audiences, now);
        claims
            .map(drop)
            .map_err(|error| Status::unauthenticated(format!("unauthenticated: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pko_auth::token::{Claims, SigningKey};

    use super::*;

    #[test]
    fn manager_token_is_accepted_until_it_expires() {
        let key = SigningKey::generate().unwrap();
        let authorizer = ManagerAuthorizer::new(vec![key.public_key()], vec!["ws.ns".to_owned()]);
        let now = Timestamp::now();
        let token = key.sign(&Claims::new("ws.ns", now)).unwrap();
        assert!(authorizer.authorize(&token, now).is_ok());
        let status = authorizer
            .authorize(&token, now + Duration::from_mins(16))
            .unwrap_err();
        assert_eq!(status.code(), tonic::Code::Unauthenticated);
        assert_eq!(status.message(), "unauthenticated: the token has expired");
    }
}
