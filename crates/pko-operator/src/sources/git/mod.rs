//! Git repositories: one question to a server for all Stacks that want the answer, and who is told of it.
//!
//! ```text
//!   a look at a Stack ─▶ login (Secrets by name) ─▶ Followed ─▶ Poller ─▶ git server
//!   Stack is woken  ◀──────────── another commit, or trouble ◀──────────────┘
//! ```
//!
//! A look waits a moment for an answer, and never longer: the Stack is woken when it comes.

mod address;
mod credentials;
mod followed;
mod reading;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use kube::{Client, ResourceExt as _, runtime::reflector::ObjectRef};
use pko_api::{Decoded, Stack};
use pko_core::stack::{GitRevision, GitSourceRef, SourceError, git_source};
use pko_kube::RequestError;
use pko_source::{
    git::{Address, GitClient, GithubTokens, HttpSettings, Revision},
    poll::{Blocking, GitLister, GitRepository, Poller, PollerSettings},
    ssh::KnownHostsFiles,
};
use tokio::time::timeout;

use super::{Found, Wake, reference};
use followed::{Asked, Followed, Need};
use reading::Reading;

/// How long a look at a Stack waits for a server.
const PATIENCE: Duration = Duration::from_secs(2);
/// Questions under way. Half of them are kept for servers that answered the last time, so that fifty that hang leave
/// enough for those who are new.
const PLACES: usize = 160;

/// What the manager was told of git.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GitSettings {
    /// Plain HTTP is good enough, whichever host it is.
    pub(crate) allow_http: bool,
    /// How often a branch is looked at, unless a Stack wants it less often.
    pub(crate) interval: Duration,
    /// Where apps of GitHub's ask for their tokens.
    pub(crate) github_api: String,
}

/// The repositories that Stacks want to know of.
pub(crate) struct Repositories {
    client: Client,
    settings: GitSettings,
    poller: Poller<Blocking<GitLister>>,
    wake: Wake,
    stacks: Mutex<HashMap<ObjectRef<Decoded<Stack>>, OfStack>>,
}

/// What is known for one Stack.
#[derive(Default)]
struct OfStack {
    reading: Option<Reading>,
    followed: Option<Followed>,
}

impl Repositories {
    /// With proxies, certificates and known hosts as the environment has them.
    pub(super) fn new(client: &Client, settings: GitSettings, wake: &Wake) -> anyhow::Result<Self> {
        let tokens = GithubTokens::new(&settings.github_api)?;
        let git = GitClient::from_environment(&HttpSettings::default())?;
        let git = git.with_app_tokens(Arc::new(tokens));
        let lister = GitLister::new(git, KnownHostsFiles::from_environment());
        let places = PollerSettings {
            max_in_flight: PLACES,
            min_interval: settings.interval,
            ..PollerSettings::default()
        };
        Ok(Self {
            client: client.clone(),
            poller: Poller::start(Blocking::new(lister, PLACES), places),
            settings,
            wake: wake.clone(),
            stacks: Mutex::default(),
        })
    }

    /// The commit that a Stack wants, or why there is none.
    pub(crate) async fn find(
        &self,
        stack: &Stack,
        wanted: &GitSourceRef,
    ) -> Result<Found, RequestError> {
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

    /// Who the Stack is, read again if that was a while ago.
    async fn login(
        &self,
        stack: &Stack,
        wanted: &GitSourceRef,
        address: &Address,
    ) -> Result<Result<Arc<credentials::Login>, String>, RequestError> {
        let key = reference(stack);
        let known = {
            let stacks = self.lock();
            let reading = stacks.get(&key).and_then(|known| known.reading.as_ref());
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
            let reading = Reading::new(wanted, login, Instant::now());
            self.lock().entry(key).or_default().reading = Some(reading);
        }
        Ok(login)
    }

    /// The commit that a name is now, as far as that is known within a moment.
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
        let asked = Asked {
            repository,
            revision,
            interval: self.interval(wanted),
            once: matches!(wanted.revision, GitRevision::Once(_)),
        };
        let key = reference(stack);
        let mut status = self.follow(&key, Need::of(stack), asked);
        let answer = timeout(PATIENCE, status.wait_for(followed::is_known)).await;
        let outcome = match answer {
            Ok(Ok(status)) => followed::outcome(&status),
            // Either it takes too long, or another look at the same Stack has asked for something else.
            Ok(Err(_)) | Err(_) => None,
        };
        if let Some(Ok(_)) = &outcome {
            self.answered(&key);
        }
        outcome.unwrap_or_else(|| {
            Err(SourceError::Pending(format!(
                "waiting for the git server of {shown} to answer"
            )))
        })
    }

    fn interval(&self, wanted: &GitSourceRef) -> Duration {
        let shortest = self.settings.interval;
        wanted.interval.unwrap_or(shortest).max(shortest)
    }

    /// What is known of a revision, from now on.
    fn follow(
        &self,
        stack: &ObjectRef<Decoded<Stack>>,
        need: Need,
        asked: Asked,
    ) -> followed::Receiver {
        let mut stacks = self.lock();
        let known = stacks.entry(stack.clone()).or_default();
        let before = known.followed.take();
        let wake = (stack.clone(), self.wake.clone());
        let followed = Followed::of(&self.poller, before, need, asked, wake);
        let status = followed.status();
        known.followed = Some(followed);
        status
    }

    /// Whoever wanted to know it once is not told any more.
    fn answered(&self, stack: &ObjectRef<Decoded<Stack>>) {
        let mut stacks = self.lock();
        if let Some(followed) = stacks.get_mut(stack).and_then(|of| of.followed.as_mut()) {
            followed.answered();
        }
    }

    /// Forgets all other Stacks.
    pub(super) fn keep_only(&self, wanted: &HashSet<ObjectRef<Decoded<Stack>>>) {
        self.lock().retain(|stack, _| wanted.contains(stack));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectRef<Decoded<Stack>>, OfStack>> {
        self.stacks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
