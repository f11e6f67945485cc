//! Builds the context of all reconciles from the arguments.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use anyhow::Context as _;
use kube::Client;
use pko_auth::token::SigningKey;
use pko_core::workspace::pod;

use super::workspace_folder::WorkspaceFolder;
use crate::{
    agents::{
        AgentPool, AgentTokens, ManagerTokens, ServiceAccountIssuer, ServiceAccountTokens,
        UpstreamRuns,
    },
    args::{Arguments, WorkspaceAddress},
    controllers::{
        Context,
        context::{Caches, EventRecorders, ReconcileMemory},
        workspace::setup::WorkspaceSetup,
    },
    metrics::Metrics,
    runs::{Runs, pod_usage::PodUsage, queue::SharedRunQueue, watchers::RunWatchers},
    server::programs::{ProgramUrls, UrlSigner},
    sources::Sources,
    watch::{
        WorkspaceTrigger,
        streams::{SharedWatches, Triggers},
    },
    workspace_runtime::{
        PodRuntime, PodRuntimeSettings, ProcessRuntime, ServedPrograms, WorkspaceRuntime,
    },
};

pub(super) struct ContextBuilder<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) client: Client,
    pub(super) metrics: Arc<Metrics>,
    pub(super) key: SigningKey,
    /// The folder of process workspaces; without one, workspaces are pods.
    pub(super) folder: Option<&'a WorkspaceFolder>,
    /// Where workspaces reach the server of Programs.
    pub(super) program_host: String,
    pub(super) watches: &'a SharedWatches,
    pub(super) triggers: &'a Triggers,
}

impl ContextBuilder<'_> {
    pub(super) fn build(self) -> anyhow::Result<Context> {
        let Self {
            arguments,
            client,
            metrics,
            key,
            folder,
            program_host,
            watches,
            triggers,
        } = self;
        let signer = arguments.program_fs_sealed.then(|| UrlSigner::new(&key));
        let program_urls = Arc::new(ProgramUrls {
            host: program_host,
            signer: signer.map(Arc::new),
        });
        let programs = ServedPrograms::new(watches.programs.store(), Arc::clone(&program_urls));
        let pod_usage = Arc::new(PodUsage::default());
        let tokens = tokens(key, arguments, &client);
        let runtime: Box<dyn WorkspaceRuntime> = if let Some(folder) = folder {
            let workspaces = (folder.path.as_path(), &triggers.workspaces);
            processes(arguments, &client, tokens, programs, workspaces)?
        } else {
            let watches = (watches, programs);
            pods(arguments, &client, tokens, &pod_usage, watches)?
        };
        Ok(Context {
            caches: caches(watches),
            memory: ReconcileMemory::default(),
            recorders: EventRecorders::new(&client),
            runtime,
            workspace_setup: WorkspaceSetup::new(triggers.workspaces.clone()),
            agents: AgentPool::new(arguments.workspace_localhost()),
            runs: runs(arguments, pod_usage, triggers, &metrics),
            sources: sources(arguments, &client, watches, triggers)?,
            program_urls,
            program_archives: Arc::default(),
            metrics,
            client,
        })
    }
}

fn caches(watches: &SharedWatches) -> Caches {
    Caches {
        stacks: watches.stacks.store(),
        workspaces: watches.workspaces.store(),
        updates: watches.updates.store(),
        programs: watches.programs.store(),
        versions: watches.versions.known(),
    }
}

fn runs(
    arguments: &Arguments,
    pod_usage: Arc<PodUsage>,
    triggers: &Triggers,
    metrics: &Arc<Metrics>,
) -> Runs {
    let trigger = || triggers.updates.clone();
    Runs {
        queue: SharedRunQueue::new(arguments.limits(), trigger(), Arc::clone(metrics)),
        pod_usage,
        watchers: RunWatchers::new(trigger()),
        upstream: UpstreamRuns::new(trigger()),
        timeout: arguments.run_timeout(),
        leading_since: OnceLock::new(),
    }
}

fn sources(
    arguments: &Arguments,
    client: &Client,
    watches: &SharedWatches,
    triggers: &Triggers,
) -> anyhow::Result<Sources> {
    Sources::new(
        client,
        watches.stacks.store(),
        arguments.watched_namespaces(),
        arguments.git_settings(),
        arguments.flux_source_groups.clone(),
        &triggers.stacks,
    )
}

fn pods(
    arguments: &Arguments,
    client: &Client,
    tokens: AgentTokens,
    pod_usage: &Arc<PodUsage>,
    (watches, programs): (&SharedWatches, ServedPrograms),
) -> anyhow::Result<Box<dyn WorkspaceRuntime>> {
    let children = watches.pods.children(programs);
    let images = arguments.agent_image_settings();
    let settings = PodRuntimeSettings {
        pod: pod::AgentSettings {
            agent_image: images.agent_image.clone(),
            agent_image_pull_policy: images.agent_image_pull_policy.to_owned(),
            max_untar_size: images.max_untar_size.clone(),
            manager_public_key: tokens.manager.public_key(),
            restrictions: arguments.pod_restrictions(),
        },
        by_name: arguments.workspace_address == WorkspaceAddress::Name,
        address_override: arguments.workspace_localhost().map(str::to_owned),
        idle_timeout: arguments.idle_timeout(),
    };
    Ok(Box::new(PodRuntime::new(
        client.clone(),
        children.context("the children of Workspaces are not watched")?,
        watches.updates.store(),
        tokens,
        Arc::clone(pod_usage),
        settings,
    )))
}

fn processes(
    arguments: &Arguments,
    client: &Client,
    tokens: AgentTokens,
    programs: ServedPrograms,
    (folder, trigger): (&Path, &WorkspaceTrigger),
) -> anyhow::Result<Box<dyn WorkspaceRuntime>> {
    Ok(Box::new(ProcessRuntime::new(
        folder.to_owned(),
        agent_program(arguments)?,
        client.clone(),
        tokens,
        programs,
        trigger.clone(),
    )))
}

fn tokens(key: SigningKey, arguments: &Arguments, client: &Client) -> AgentTokens {
    let service_account = arguments.service_account().map(|(namespace, name)| {
        let issuer = ServiceAccountIssuer::new(client.clone(), &namespace, name);
        Arc::new(ServiceAccountTokens::new(issuer))
    });
    AgentTokens {
        manager: Arc::new(ManagerTokens::new(key)),
        service_account,
    }
}

/// The agent's program: `--agent`, or `agent` beside this one.
fn agent_program(arguments: &Arguments) -> anyhow::Result<PathBuf> {
    let beside = || Ok::<_, std::io::Error>(std::env::current_exe()?.with_file_name("agent"));
    let agent = arguments.agent.clone().map_or_else(beside, Ok)?;
    let agent = agent.canonicalize().unwrap_or(agent);
    anyhow::ensure!(
        agent.is_file(),
        "there is no agent at {}: set --agent to its path",
        agent.display()
    );
    Ok(agent)
}
