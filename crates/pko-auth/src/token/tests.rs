use ring::hmac;

use super::*;

const AUDIENCE: &str = "ws.ns";

fn now() -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap()
}

fn after(seconds: i64) -> Timestamp {
    Timestamp::from_second(now().as_second() + seconds).unwrap()
}

fn claims() -> Claims {
    Claims::new(AUDIENCE, now())
}

fn check(token: &str, key: &SigningKey, now: Timestamp) -> Result<Claims, TokenError> {
    verify(token, &[key.public_key()], &[AUDIENCE.to_owned()], now)
}

/// A token with any header and payload, validly signed.
fn signed(key: &SigningKey, header: &str, payload: &str) -> String {
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let signed = format!("{}.{}", encode(header), encode(payload));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(key.signature(signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn payload() -> String {
    serde_json::to_string(&claims()).unwrap()
}

#[test]
fn header_constant_decodes_to_ed25519() {
    let header = decode(HEADER).unwrap();
    assert_eq!(header, br#"{"alg":"EdDSA","typ":"JWT"}"#);
}

#[test]
fn token_is_valid_until_expiry_plus_skew() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&claims()).unwrap();
    let table = [
        (0, Ok(claims())),
        (-600, Ok(claims())),
        (-601, Err(TokenError::NotYetValid)),
        (600, Ok(claims())),
        (899, Ok(claims())),
        (900, Err(TokenError::Expired)),
        (100_000, Err(TokenError::Expired)),
    ];
    for (seconds, expected) in table {
        assert_eq!(check(&token, &key, after(seconds)), expected, "{seconds}");
    }
}

/// Agents of earlier versions tolerate half a minute.
#[test]
fn token_is_valid_for_its_lifetime_at_a_strict_agent_with_skew() {
    let (claims, strict) = (claims(), 30);
    let (skew, lifetime) = (seconds(CLOCK_SKEW), seconds(LIFETIME));
    for age in [0, lifetime - 1] {
        for clock in [-skew, 0, skew] {
            let there = now().as_second() + age + clock;
            assert!(claims.iat <= there + strict && claims.exp > there - strict);
        }
    }
    assert!(claims.exp - claims.iat <= seconds(MAX_LIFETIME));
}

#[test]
fn token_of_untrusted_key_is_rejected() {
    let (key, other) = (
        SigningKey::generate().unwrap(),
        SigningKey::generate().unwrap(),
    );
    let token = other.sign(&claims()).unwrap();
    assert_eq!(check(&token, &key, now()), Err(TokenError::Signature));
    let audiences = [AUDIENCE.to_owned()];
    assert_eq!(
        verify(&token, &[], &audiences, now()),
        Err(TokenError::Signature)
    );
    // During a rotation, both keys are trusted.
    let both = [key.public_key(), other.public_key()];
    assert_eq!(verify(&token, &both, &audiences, now()), Ok(claims()));
}

#[test]
fn token_with_wrong_claims_is_rejected() {
    let key = SigningKey::generate().unwrap();
    let at = now().as_second();
    let table = [
        (
            Claims {
                aud: "other.ns".into(),
                ..claims()
            },
            TokenError::Audience,
        ),
        (
            Claims {
                aud: String::new(),
                ..claims()
            },
            TokenError::Audience,
        ),
        (
            Claims {
                iss: "kubernetes/serviceaccount".into(),
                ..claims()
            },
            TokenError::Issuer,
        ),
        (
            Claims {
                iat: at,
                exp: at + 3601,
                ..claims()
            },
            TokenError::Lifetime,
        ),
        (
            Claims {
                iat: i64::MIN,
                exp: i64::MAX,
                ..claims()
            },
            TokenError::Lifetime,
        ),
        (
            Claims {
                iat: at + 600,
                exp: at,
                ..claims()
            },
            TokenError::Lifetime,
        ),
        (
            Claims {
                iat: at,
                exp: at,
                ..claims()
            },
            TokenError::Lifetime,
        ),
        (
            Claims {
                iat: at + 360,
                exp: at + 420,
                ..claims()
            },
            TokenError::NotYetValid,
        ),
        (
            Claims {
                iat: at - 420,
                exp: at - 360,
                ..claims()
            },
            TokenError::Expired,
        ),
    ];
    for (claims, error) in table {
        let token = key.sign(&claims).unwrap();
        assert_eq!(check(&token, &key, now()), Err(error), "{claims:?}");
    }
    let hour = Claims {
        iat: at,
        exp: at + 3600,
        ..claims()
    };
    let token = key.sign(&hour).unwrap();
    assert_eq!(check(&token, &key, now()), Ok(hour));
}

#[test]
fn token_with_other_algorithm_is_rejected() {
    let key = SigningKey::generate().unwrap();
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    for header in [
        r#"{"alg":"none","typ":"JWT"}"#,
        r#"{"alg":"HS256","typ":"JWT"}"#,
        r#"{"alg":"EdDSA","typ":"JWT","jwk":{}}"#,
        "",
    ] {
        let token = signed(&key, header, &payload());
        assert_eq!(check(&token, &key, now()), Err(TokenError::Algorithm));
    }
    let unsigned = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&payload()));
    assert_eq!(check(&unsigned, &key, now()), Err(TokenError::Algorithm));
}

#[test]
fn public_key_is_not_accepted_as_hmac_secret() {
    let key = SigningKey::generate().unwrap();
    let public = key.public_key().to_pem();
    let secret = hmac::Key::new(hmac::HMAC_SHA256, public.as_bytes());
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    let own_header = encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    for (header, error) in [
        (own_header.as_str(), TokenError::Algorithm),
        (HEADER, TokenError::Signature),
    ] {
        let message = format!("{header}.{}", encode(&payload()));
        let tag = hmac::sign(&secret, message.as_bytes());
        let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(tag));
        assert_eq!(check(&token, &key, now()), Err(error));
    }
}

#[test]
fn altered_token_is_rejected() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&claims()).unwrap();
    for length in 0..token.len() {
        let cut = &token[..length];
        assert!(check(cut, &key, now()).is_err(), "{cut}");
    }
    for index in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(check(&changed, &key, now()).is_err(), "{changed}");
    }
    for more in [" ", "=", ".", "A", ".AAAA"] {
        assert!(check(&format!("{token}{more}"), &key, now()).is_err());
    }
}

#[test]
fn malformed_token_is_rejected() {
    let key = SigningKey::generate().unwrap();
    let long = format!("{HEADER}.{}.", "A".repeat(MAX_TOKEN_BYTES));
    for text in ["", ".", "..", "garbage", "a.b", &long] {
        assert!(check(text, &key, now()).is_err(), "{text}");
        assert!(!has_manager_issuer(text));
    }
    let header = r#"{"alg":"EdDSA","typ":"JWT"}"#;
    for payload in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"iss":"pulumi-kubernetes-operator","aud":"ws.ns","iat":1800000000}"#,
        r#"{"iss":"pulumi-kubernetes-operator","aud":"ws.ns","iat":1800000000,"exp":"1800000300"}"#,
        r#"{"iss":"pulumi-kubernetes-operator","aud":["ws.ns"],"iat":1800000000,"exp":1800000300}"#,
        r#"{"iss":"pulumi-kubernetes-operator","aud":"other.ns","aud":"ws.ns","iat":1800000000,"exp":1800000300}"#,
    ] {
        let token = signed(&key, header, payload);
        let checked = check(&token, &key, now());
        assert_eq!(checked, Err(TokenError::Malformed), "{payload}");
    }
}

#[test]
fn manager_issuer_is_detected() {
    let key = SigningKey::generate().unwrap();
    assert!(has_manager_issuer(&key.sign(&claims()).unwrap()));
    let foreign = Claims {
        iss: "https://kubernetes.default.svc".into(),
        ..claims()
    };
    assert!(!has_manager_issuer(&key.sign(&foreign).unwrap()));
}

#[test]
fn audience_has_upstream_format() {
    assert_eq!(audience("ns", "ws"), AUDIENCE);
}
