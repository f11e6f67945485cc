//! Git repositories: one request to a server for all Stacks that need the answer.
//!
//! ```text
//!   reconcile of a Stack ─▶ login (Secrets by name) ─▶ GitSubscription ─▶ Poller ─▶ git server
//!   Stack is triggered ◀───────── another commit, or a failure ◀──────────────┘
//! ```
//!
//! A reconcile waits a moment for the first answer, and never longer: the answer triggers the
//! Stack. Only a few reconciles of a namespace wait at once, so that its servers hold up no other's
//! reconciles.

mod address;
mod cached_login;
mod credentials;
mod patience;
mod subscription;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::{Client, ResourceExt as _, runtime::reflector::ObjectRef};
use parking_lot::{Mutex, MutexGuard};
use pko_api::{Decoded, Stack};
use pko_core::stack::{GitRevision, GitSourceRef, SourceError, git_source};
use pko_kube::RequestError;
use pko_source::{
    git::{Address, GitClient, GithubTokens, HttpSettings, Revision},
    poll::{Blocking, GitLister, GitRepository, Poller, PollerSettings},
    ssh::KnownHostsFiles,
};
use tokio::time::timeout;

use super::{SourceResult, reference};
use crate::watch::StackTrigger;
use cached_login::CachedLogin;
use patience::Patience;
use subscription::{GitQuery, GitSubscription, ReadTrigger};

/// How long a reconcile waits for a server.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// Concurrent requests. A namespace gets a quarter of them for servers that did not answer the last
/// time, so that fifty hanging servers leave enough for its new ones.
const MAX_REQUESTS: usize = 256;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitSettings {
    /// Allow plain HTTP to any host.
    pub(crate) allow_http: bool,
    /// The shortest poll interval of a branch; a Stack can set a longer one.
    pub(crate) interval: Duration,
    /// The URL at which GitHub Apps request tokens.
    pub(crate) github_api: String,
}

pub(crate) struct Repositories {
    client: Client,
    settings: GitSettings,
    poller: Poller<Blocking<GitLister>>,
    trigger: StackTrigger,
    stacks: Mutex<HashMap<ObjectRef<Decoded<Stack>>, StackRepository>>,
    patience: Patience,
}

#[derive(Default)]
struct StackRepository {
    login: Option<CachedLogin>,
    subscription: Option<GitSubscription>,
}

impl Repositories {
    /// Takes proxies, certificates and known hosts from the environment.
    pub(super) fn new(
        client: &Client,
        settings: GitSettings,
        trigger: &StackTrigger,
    ) -> anyhow::Result<Self> {
        let tokens = GithubTokens::new(&settings.github_api)?;
        let git = GitClient::from_environment(&HttpSettings::default())?;
        let git = git.with_app_tokens(Arc::new(tokens));
        let lister = GitLister::new(git, KnownHostsFiles::from_environment());
        let poller = PollerSettings {
            max_in_flight: MAX_REQUESTS,
            min_interval: settings.interval,
            ..PollerSettings::default()
        };
        Ok(Self {
            client: client.clone(),
            poller: Poller::start(Blocking::new(lister, MAX_REQUESTS), poller),
            settings,
            trigger: trigger.clone(),
            stacks: Mutex::default(),
            patience: Patience::default(),
        })
    }

    /// The commit for a Stack, or why there is none.
    pub(crate) async fn find(
        &self,
        stack: &Stack,
        wanted: &GitSourceRef,
    ) -> Result<SourceResult, RequestError> {
        let address = match address::checked(&wanted.repository, self.settings.allow_http) {
            Ok(address) => address,
            Err(problem) => return Ok(Err(SourceError::Invalid(problem))),
        };
        let login = match self.login(stack, wanted, &address).await? {
            Ok(login) => login,
            Err(problem) => return Ok(Err(SourceError::Invalid(problem))),
        };
        let commit = match &wanted.revision {
            GitRevision::Commit(commit) => Ok(commit.clone()),
            GitRevision::Once(name) | GitRevision::Followed(name) => {
                let repository = GitRepository {
                    address,
                    credentials: login.credentials.clone(),
                    known_hosts: login.known_hosts.as_ref().map(|hosts| hosts.text.clone()),
                };
                self.commit(stack, wanted, repository, name).await
            }
        };
        let hosts = login.known_hosts.as_ref().map(|hosts| &hosts.place);
        Ok(commit.map(|commit| git_source(stack, &commit, hosts)))
    }

    /// The credentials, read again if they have expired.
    async fn login(
        &self,
        stack: &Stack,
        wanted: &GitSourceRef,
        address: &Address,
    ) -> Result<Result<Arc<credentials::Login>, String>, RequestError> {
        let key = reference(stack);
        let known = {
            let stacks = self.lock();
            let reading = stacks.get(&key).and_then(|known| known.login.as_ref());
            reading.and_then(|reading| reading.of(wanted, Instant::now()))
        };
        if let Some(login) = known {
            return Ok(Ok(login));
        }
        let namespace = stack.namespace().unwrap_or_default();
        let secrets = credentials::read(&self.client, &namespace, &wanted.login).await?;
        let login = credentials::login(&wanted.login, &namespace, address.scheme(), &secrets);
        let login = login.map(Arc::new);
        if let Ok(login) = &login {
            let reading = CachedLogin::new(wanted, login, Instant::now());
            self.lock().entry(key).or_default().login = Some(reading);
        }
        Ok(login)
    }

    /// Resolves a name, as far as that is possible within a moment.
    async fn commit(
        &self,
        stack: &Stack,
        wanted: &GitSourceRef,
        repository: GitRepository,
        name: &str,
    ) -> Result<String, SourceError> {
        let revision =
            Revision::parse(name).map_err(|error| SourceError::Invalid(error.to_string()))?;
        let shown = repository.address.without_credentials();
        let query = GitQuery {
            repository,
            revision,
            interval: self.interval(wanted),
            once: matches!(wanted.revision, GitRevision::Once(_)),
        };
        let key = reference(stack);
        let (status, is_first_wait) = self.follow(&key, ReadTrigger::of(stack), query);
        let outcome = self.answer(&key, status, is_first_wait).await;
        if let Some(Ok(_)) = &outcome {
            self.mark_resolved(&key);
        }
        outcome.unwrap_or_else(|| {
            Err(SourceError::Pending(format!(
                "waiting for the git server of {shown} to answer"
            )))
        })
    }

    /// The answer of a server, if it is there or comes within a moment.
    async fn answer(
        &self,
        stack: &ObjectRef<Decoded<Stack>>,
        mut status: subscription::Receiver,
        is_first_wait: bool,
    ) -> Option<Result<String, SourceError>> {
        let known = subscription::outcome(&status.borrow());
        if known.is_some() || !is_first_wait {
            return known;
        }
        let namespace = stack.namespace.as_deref().unwrap_or_default();
        let _waiting = self.patience.begin(namespace)?;
        match timeout(LONGEST_WAIT, status.wait_for(subscription::is_resolved)).await {
            Ok(Ok(status)) => subscription::outcome(&status),
            // It takes too long, or another reconcile of the same Stack has replaced the query.
            Ok(Err(_)) | Err(_) => None,
        }
    }

    fn interval(&self, wanted: &GitSourceRef) -> Duration {
        let shortest = self.settings.interval;
        wanted.interval.unwrap_or(shortest).max(shortest)
    }

    /// Subscribes to a revision. Returns its status, and whether this reconcile may wait for it.
    fn follow(
        &self,
        stack: &ObjectRef<Decoded<Stack>>,
        trigger_state: ReadTrigger,
        query: GitQuery,
    ) -> (subscription::Receiver, bool) {
        let mut stacks = self.lock();
        let known = stacks.entry(stack.clone()).or_default();
        let before = known.subscription.take();
        let trigger = (stack.clone(), self.trigger.clone());
        let mut subscription =
            GitSubscription::of(&self.poller, before, trigger_state, query, trigger);
        let answer = (subscription.status(), subscription.take_first_wait());
        known.subscription = Some(subscription);
        answer
    }

    /// Ends a subscription that was to resolve once.
    fn mark_resolved(&self, stack: &ObjectRef<Decoded<Stack>>) {
        let mut stacks = self.lock();
        if let Some(subscription) = stacks
            .get_mut(stack)
            .and_then(|of| of.subscription.as_mut())
        {
            subscription.resolve();
        }
    }

    /// Drops all other Stacks.
    pub(super) fn keep_only(&self, wanted: &HashSet<ObjectRef<Decoded<Stack>>>) {
        self.lock().retain(|stack, _| wanted.contains(stack));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef<Decoded<Stack>>, StackRepository>> {
        self.stacks.lock()
    }
}
