//! Which tokens are believed.

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

fn judge(token: &str, key: &SigningKey, now: Timestamp) -> Result<Claims, TokenError> {
    verify(token, &[key.public_key()], &[AUDIENCE.to_owned()], now)
}

/// Any header and payload, signed as if they were ours.
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
fn the_header_is_what_it_is_said_to_be() {
    let header = decode(HEADER).unwrap();
    assert_eq!(header, br#"{"alg":"EdDSA","typ":"JWT"}"#);
}

#[test]
fn a_token_is_believed_until_it_ends_give_or_take_the_skew() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&claims()).unwrap();
    let table = [
        (0, Ok(claims())),
        (-30, Ok(claims())),
        (-31, Err(TokenError::NotYetValid)),
        (300, Ok(claims())),
        (329, Ok(claims())),
        (330, Err(TokenError::Expired)),
        (100_000, Err(TokenError::Expired)),
    ];
    for (seconds, expected) in table {
        assert_eq!(judge(&token, &key, after(seconds)), expected, "{seconds}");
    }
}

#[test]
fn another_key_does_not_open() {
    let (key, other) = (
        SigningKey::generate().unwrap(),
        SigningKey::generate().unwrap(),
    );
    let token = other.sign(&claims()).unwrap();
    assert_eq!(judge(&token, &key, now()), Err(TokenError::Signature));
    let audiences = [AUDIENCE.to_owned()];
    assert_eq!(
        verify(&token, &[], &audiences, now()),
        Err(TokenError::Signature)
    );
    // While a key is changed, both are known.
    let both = [key.public_key(), other.public_key()];
    assert_eq!(verify(&token, &both, &audiences, now()), Ok(claims()));
}

#[test]
fn what_a_token_says_is_judged() {
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
                exp: at,
                ..claims()
            },
            TokenError::Lifetime,
        ),
        (
            Claims {
                iat: at + 60,
                exp: at + 120,
                ..claims()
            },
            TokenError::NotYetValid,
        ),
        (
            Claims {
                iat: at - 120,
                exp: at - 60,
                ..claims()
            },
            TokenError::Expired,
        ),
    ];
    for (claims, error) in table {
        let token = key.sign(&claims).unwrap();
        assert_eq!(judge(&token, &key, now()), Err(error), "{claims:?}");
    }
    let hour = Claims {
        exp: at + 3600,
        ..claims()
    };
    let token = key.sign(&hour).unwrap();
    assert_eq!(judge(&token, &key, now()), Ok(hour));
}

#[test]
fn another_algorithm_is_not_even_looked_at() {
    let key = SigningKey::generate().unwrap();
    let encode = |text: &str| BASE64_URL_SAFE_NO_PAD.encode(text);
    for header in [
        r#"{"alg":"none","typ":"JWT"}"#,
        r#"{"alg":"HS256","typ":"JWT"}"#,
        r#"{"alg":"EdDSA","typ":"JWT","jwk":{}}"#,
        "",
    ] {
        let token = signed(&key, header, &payload());
        assert_eq!(judge(&token, &key, now()), Err(TokenError::Algorithm));
    }
    let unsigned = format!("{}.{}.", encode(r#"{"alg":"none"}"#), encode(&payload()));
    assert_eq!(judge(&unsigned, &key, now()), Err(TokenError::Algorithm));
}

#[test]
fn the_public_key_is_no_shared_secret() {
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
        assert_eq!(judge(&token, &key, now()), Err(error));
    }
}

#[test]
fn no_part_of_a_token_can_be_left_out_or_changed() {
    let key = SigningKey::generate().unwrap();
    let token = key.sign(&claims()).unwrap();
    for length in 0..token.len() {
        let cut = &token[..length];
        assert!(judge(cut, &key, now()).is_err(), "{cut}");
    }
    for index in 0..token.len() {
        let mut bytes = token.clone().into_bytes();
        bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(judge(&changed, &key, now()).is_err(), "{changed}");
    }
    for more in [" ", "=", ".", "A", ".AAAA"] {
        assert!(judge(&format!("{token}{more}"), &key, now()).is_err());
    }
}

#[test]
fn what_is_no_token_is_refused() {
    let key = SigningKey::generate().unwrap();
    let long = format!("{HEADER}.{}.", "A".repeat(LONGEST_TOKEN));
    for text in ["", ".", "..", "garbage", "a.b", &long] {
        assert!(judge(text, &key, now()).is_err(), "{text}");
        assert!(!is_of_manager(text));
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
        let judged = judge(&token, &key, now());
        assert_eq!(judged, Err(TokenError::Malformed), "{payload}");
    }
}

#[test]
fn whose_a_token_says_it_is() {
    let key = SigningKey::generate().unwrap();
    assert!(is_of_manager(&key.sign(&claims()).unwrap()));
    let foreign = Claims {
        iss: "https://kubernetes.default.svc".into(),
        ..claims()
    };
    assert!(!is_of_manager(&key.sign(&foreign).unwrap()));
}

#[test]
fn the_audience_is_upstreams() {
    assert_eq!(audience("ns", "ws"), AUDIENCE);
}
