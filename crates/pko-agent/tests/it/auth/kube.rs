//! Mode `kube`, with a real API server that reviews tokens and rights.

use std::{collections::BTreeMap, fs, path::PathBuf, time::Duration};

use base64::{
    Engine as _,
    prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
};
use jiff::Timestamp;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::SubjectAccessReview,
    core::v1::ServiceAccount,
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::api::{Api, DeleteParams, PostParams};
use pko_auth::token::{Claims, SigningKey, audience};
use pko_testkit::{ControlPlane, TestNamespace, eventually, with_namespace};
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tonic::Code;

use super::{
    AUDIENCE, assert_rejected, bearer, gets_in, health_is_free, manager::public_key_file,
    needs_a_bearer_token,
};
use crate::harness::{Agent, TestWorkspace, simple};

const WORKSPACE: &str = "ws";
/// The service account that managers use.
const MANAGER: &str = "manager";

/// Who signs the tokens of service accounts; also the audience of those that are for the API server
/// itself.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// Starts the agent of `ws` in a namespace, as a user of the cluster.
async fn serve(
    place: &TestWorkspace,
    namespace: &str,
    kubeconfig: PathBuf,
    more: &[&str],
) -> Agent {
    let audience = audience(namespace, WORKSPACE);
    let mut flags = vec![
        "--kube-audience",
        &audience,
        "--kube-workspace-namespace",
        namespace,
        "--kube-workspace-name",
        WORKSPACE,
        "--kubeconfig",
        kubeconfig.to_str().unwrap(),
    ];
    flags.extend(more);
    place.serve(&flags).await
}

const KUBE: [&str; 2] = ["--auth-mode", "kube"];

/// A user that may create `TokenReview`s, and its kubeconfig.
async fn delegate(cluster: &ControlPlane, namespace: &TestNamespace) -> PathBuf {
    let user = format!("agent-of-{}", namespace.name());
    let binding = json!({
        "metadata": { "name": format!("{user}:system:auth-delegator") },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator" },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
    let api = Api::all(namespace.client());
    api.create(&PostParams::default(), &binding).await.unwrap();
    for (group, resource) in [
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    ] {
        let attributes = json!({ "group": group, "resource": resource, "verb": "create" });
        until(namespace, &user, attributes, true).await;
    }
    cluster.kubeconfig_as(&user, &[]).unwrap()
}

/// Waits until the API server's own view of who may what has followed the objects.
async fn until(namespace: &TestNamespace, user: &str, attributes: Value, allowed: bool) {
    let review =
        json!({ "metadata": {}, "spec": { "user": user, "resourceAttributes": attributes } });
    let review: SubjectAccessReview = serde_json::from_value(review).unwrap();
    let api: Api<SubjectAccessReview> = Api::all(namespace.client());
    let followed = eventually("the rights to be known", async || {
        let answer = api.create(&PostParams::default(), &review).await.unwrap();
        let is_allowed = answer.status.unwrap().allowed;
        (is_allowed == allowed).then_some(()).ok_or(is_allowed)
    });
    followed.await.unwrap();
}

/// Waits until a service account may, or may not, use the Workspace.
async fn until_callers_are(
    namespace: &TestNamespace,
    of: &TestNamespace,
    name: &str,
    allowed: bool,
) {
    let user = format!("system:serviceaccount:{}:{name}", of.name());
    let attributes = json!({
        "group": "auto.pulumi.com", "resource": "workspaces", "subresource": "rpc", "verb": "use",
        "namespace": namespace.name(), "name": WORKSPACE,
    });
    until(namespace, &user, attributes, allowed).await;
}

async fn create(namespace: &TestNamespace, object: Value) {
    namespace.create_object(object).await.unwrap();
}

async fn account(namespace: &TestNamespace, name: &str) {
    let account =
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": name } });
    create(namespace, account).await;
}

/// Lets a service account of any namespace use the Workspaces of this one, as upstream's role for
/// managers does.
async fn allow(namespace: &TestNamespace, of: &TestNamespace, name: &str) {
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": "callers" },
        "rules": [{ "apiGroups": ["auto.pulumi.com"], "resources": ["workspaces/rpc"], "verbs": ["use"] }],
    });
    create(namespace, role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": "callers" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "callers" },
        "subjects": [{ "kind": "ServiceAccount", "namespace": of.name(), "name": name }],
    });
    create(namespace, binding).await;
    until_callers_are(namespace, of, name, true).await;
}

/// A token that the API server gives a service account.
async fn token(namespace: &TestNamespace, name: &str, audience: &str) -> String {
    let request = TokenRequest {
        spec: TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            ..Default::default()
        },
        ..Default::default()
    };
    let api: Api<ServiceAccount> = namespace.api();
    let answer = api
        .create_token_request(name, &PostParams::default(), &request)
        .await;
    bearer(&answer.unwrap().status.unwrap().token)
}

/// A token that the API server could have given, so many seconds ago and for ten minutes: it gives
/// none that ends sooner.
async fn signed(
    cluster: &ControlPlane,
    namespace: &TestNamespace,
    name: &str,
    audience: &str,
    seconds_ago: i64,
) -> String {
    let accounts: Api<ServiceAccount> = namespace.api();
    let account = accounts.get(name).await.unwrap();
    let begin = Timestamp::now().as_second() - seconds_ago;
    let claims = json!({
        "iss": ISSUER,
        "sub": format!("system:serviceaccount:{}:{name}", namespace.name()),
        "aud": [audience],
        "iat": begin, "nbf": begin, "exp": begin + 600,
        "kubernetes.io": {
            "namespace": namespace.name(),
            "serviceaccount": { "name": name, "uid": account.metadata.uid },
        },
    });
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let message = format!(
        "{}.{}",
        encode(json!({ "alg": "ES256", "typ": "JWT" })),
        encode(claims)
    );
    let key = fs::read_to_string(cluster.data_dir().join("tokens.key")).unwrap();
    let key: String = key.lines().filter(|line| !line.starts_with('-')).collect();
    let key = BASE64_STANDARD.decode(key).unwrap();
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let key = EcdsaKeyPair::from_pkcs8(algorithm, &key, &random).unwrap();
    let signature = key.sign(&random, message.as_bytes()).unwrap();
    let signature = BASE64_URL_SAFE_NO_PAD.encode(signature);
    bearer(&format!("{message}.{signature}"))
}

#[tokio::test]
async fn kube_tokens_and_rights_are_reviewed() {
    let cluster = ControlPlane::shared().await.unwrap();
    with_namespace(&cluster, async |namespace| {
        with_namespace(&cluster, async |elsewhere| {
            let audience = audience(namespace.name(), WORKSPACE);
            account(elsewhere, MANAGER).await;
            account(elsewhere, "stranger").await;
            allow(namespace, elsewhere, MANAGER).await;
            let place = TestWorkspace::new(&simple());
            let kubeconfig = delegate(&cluster, namespace).await;
            let agent = serve(&place, namespace.name(), kubeconfig, &KUBE).await;
            needs_a_bearer_token(&agent).await;
            let unauthenticated = [
                bearer("garbage"),
                bearer("a.b.c"),
                token(elsewhere, MANAGER, "other.ns").await,
                token(elsewhere, MANAGER, ISSUER).await,
                signed(&cluster, elsewhere, MANAGER, &audience, 3600).await,
                // A claim alone does not make a caller the manager.
                bearer(&signed_by_manager(
                    &SigningKey::generate().unwrap(),
                    &audience,
                )),
            ];
            for authorization in &unauthenticated {
                let (no, message) = (Code::Unauthenticated, "unauthenticated");
                assert_rejected(&agent, Some(authorization), no, message).await;
            }
            let stranger = token(elsewhere, "stranger", &audience).await;
            let (no, message) = (Code::PermissionDenied, "forbidden");
            assert_rejected(&agent, Some(&stranger), no, message).await;
            assert!(place.calls().is_empty(), "nobody came to a service");
            let given = token(elsewhere, MANAGER, &audience).await;
            gets_in(&agent, Some(&given)).await;
            gets_in(&agent, Some(&given.replace("Bearer", "bearer"))).await;
            let made = signed(&cluster, elsewhere, MANAGER, &audience, 0).await;
            gets_in(&agent, Some(&made)).await;
            health_is_free(&agent).await;
            let log = agent.log();
            for authorization in unauthenticated.iter().skip(1).chain([&stranger, &given]) {
                let secret = authorization.strip_prefix("Bearer ").unwrap();
                assert!(!log.contains(secret), "{log}");
            }
            let user = format!("system:serviceaccount:{}:stranger", elsewhere.name());
            assert!(log.contains(&user), "the log names who was denied: {log}");
        })
        .await;
    })
    .await;
}

fn signed_by_manager(key: &SigningKey, audience: &str) -> String {
    key.sign(&Claims::new(audience, Timestamp::now())).unwrap()
}

#[tokio::test]
async fn revoked_right_is_denied_by_new_agent() {
    let cluster = ControlPlane::shared().await.unwrap();
    with_namespace(&cluster, async |namespace| {
        let audience = audience(namespace.name(), WORKSPACE);
        account(namespace, MANAGER).await;
        allow(namespace, namespace, MANAGER).await;
        let token = token(namespace, MANAGER, &audience).await;
        let kubeconfig = delegate(&cluster, namespace).await;
        let place = TestWorkspace::new(&simple());
        let agent = serve(&place, namespace.name(), kubeconfig.clone(), &KUBE).await;
        gets_in(&agent, Some(&token)).await;
        agent.kill().await;
        let bindings: Api<RoleBinding> = namespace.api();
        bindings
            .delete("callers", &DeleteParams::default())
            .await
            .unwrap();
        until_callers_are(namespace, namespace, MANAGER, false).await;
        let agent = serve(&place, namespace.name(), kubeconfig, &KUBE).await;
        let refused = assert_rejected(&agent, Some(&token), Code::PermissionDenied, "forbidden");
        refused.await;
    })
    .await;
}

#[tokio::test]
async fn missing_review_right_rejects_callers_with_hint() {
    let cluster = ControlPlane::shared().await.unwrap();
    with_namespace(&cluster, async |namespace| {
        let audience = audience(namespace.name(), WORKSPACE);
        account(namespace, MANAGER).await;
        allow(namespace, namespace, MANAGER).await;
        let token = token(namespace, MANAGER, &audience).await;
        let place = TestWorkspace::new(&simple());
        let kubeconfig = cluster.kubeconfig_as("nobody", &[]).unwrap();
        let agent = serve(&place, namespace.name(), kubeconfig, &KUBE).await;
        let (no, message) = (Code::Unauthenticated, "TokenReview API is unavailable");
        assert_rejected(&agent, Some(&token), no, message).await;
        health_is_free(&agent).await;
        let log = agent.log();
        assert!(log.contains("kubectl create clusterrolebinding"), "{log}");
        assert!(log.contains("--clusterrole=system:auth-delegator"), "{log}");
    })
    .await;
}

/// The last of a cluster's processes, which is its API server.
fn signal_api_server(cluster: &ControlPlane, signal: Signal) {
    let process = cluster.process_ids().pop().unwrap();
    let process = Pid::from_raw(i32::try_from(process).unwrap()).unwrap();
    kill_process(process, signal).unwrap();
}

#[tokio::test]
async fn unavailable_api_server_denies_without_caching() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let namespace = TestNamespace::create(&cluster).await.unwrap();
    let audience = audience(namespace.name(), WORKSPACE);
    account(&namespace, MANAGER).await;
    allow(&namespace, &namespace, MANAGER).await;
    let first = token(&namespace, MANAGER, &audience).await;
    let second = signed(&cluster, &namespace, MANAGER, &audience, 1).await;
    let place = TestWorkspace::new(&simple());
    let kubeconfig = delegate(&cluster, &namespace).await;
    let agent = serve(&place, namespace.name(), kubeconfig, &KUBE).await;
    // It takes calls, and does not answer.
    signal_api_server(&cluster, Signal::STOP);
    let message = "the API server did not respond to a TokenReview in 10 seconds";
    let refused = assert_rejected(&agent, Some(&first), Code::Unauthenticated, message);
    tokio::time::timeout(Duration::from_mins(1), refused)
        .await
        .unwrap();
    health_is_free(&agent).await;
    signal_api_server(&cluster, Signal::CONT);
    gets_in(&agent, Some(&first)).await;
    // It is gone.
    signal_api_server(&cluster, Signal::KILL);
    for answer in super::answers(&agent, Some(&second)).await {
        assert_eq!(answer.0, Code::Unauthenticated, "{answer:?}");
        assert_ne!(answer.1, "unauthenticated", "that would be a judgement");
    }
    // Who was let in is known for a while.
    gets_in(&agent, Some(&first)).await;
}

#[tokio::test]
async fn both_auth_modes_accept_their_tokens() {
    let cluster = ControlPlane::shared().await.unwrap();
    with_namespace(&cluster, async |namespace| {
        let audience = audience(namespace.name(), WORKSPACE);
        account(namespace, MANAGER).await;
        allow(namespace, namespace, MANAGER).await;
        let (key, other) = (
            SigningKey::generate().unwrap(),
            SigningKey::generate().unwrap(),
        );
        let place = TestWorkspace::new(&simple());
        let file = public_key_file(&place, "manager.pub", &key);
        let more = [
            "--auth-mode",
            "kube,manager",
            "--manager-public-key",
            file.to_str().unwrap(),
        ];
        let kubeconfig = delegate(&cluster, namespace).await;
        let agent = serve(&place, namespace.name(), kubeconfig, &more).await;
        needs_a_bearer_token(&agent).await;
        let ours = |key, audience| bearer(&signed_by_manager(key, audience));
        gets_in(&agent, Some(&ours(&key, &audience))).await;
        gets_in(&agent, Some(&token(namespace, MANAGER, &audience).await)).await;
        let judged_by_key = BTreeMap::from([
            (
                ours(&other, &audience),
                "the token is not signed by a trusted key",
            ),
            (ours(&key, AUDIENCE), "the token is for another workspace"),
        ]);
        let no = Code::Unauthenticated;
        for (authorization, reason) in judged_by_key {
            let message = format!("unauthenticated: {reason}");
            assert_rejected(&agent, Some(&authorization), no, &message).await;
        }
        let foreign = token(namespace, MANAGER, "other.ns").await;
        assert_rejected(&agent, Some(&foreign), no, "unauthenticated").await;
        assert_rejected(&agent, Some("Bearer garbage"), no, "unauthenticated").await;
        health_is_free(&agent).await;
    })
    .await;
}
