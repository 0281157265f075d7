//! `restore` makes a container of a snapshot: beside the old one, or in its place.
//!
//! Everything is checked before anything is replaced. What was made is removed again if a later step fails, and a
//! container that was to be replaced gets its name, its state and its volumes back.

use std::{
    collections::HashMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use bollard::{models::VolumeCreateRequest, query_parameters::CreateContainerOptionsBuilder};
use engine::{Engine, failure::Failure, text::time, threads};
use store::{
    Error, ErrorKind,
    catalog::clock,
    content::{TenantStore, snapshot_tree::SnapshotTree, workers::blocking},
    format::record::Record,
    ops::{
        point_of_no_return::PointOfNoReturn,
        read::{browse::PinnedTree, restore as store_restore},
    },
    scratch::{Kind, Scratch},
    tree::write::Keeping,
};

use super::{
    create,
    description::{ContainerDescription, Trigger},
    image_load,
    names::{choice, told},
    restore_outcome::{
        ContainerRestoreOutcome, ContainerRestoreRequest, RestoreMode, RestoreResult, RestoredVolume,
    },
    show,
    snapshot::snapshot,
    snapshot_request::ContainerSnapshotRequest,
    verify::verify,
    volume_content::VolumeContent,
};
use crate::docker::{Docker, Helper, Mark, Notes, Provisional, Status, failure, spool, stream_of};

/// How long a replaced container may take to end.
const STOP_SECONDS: u32 = 10;
/// How often a container is asked how it is.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a container without a health check must run.
const SETTLED: Duration = Duration::from_secs(1);

/// Makes a container of a snapshot.
#[crate::boxed]
pub async fn restore(
    engine: &Engine,
    request: &ContainerRestoreRequest,
) -> Result<ContainerRestoreOutcome, Failure> {
    let began = Instant::now();
    request.actor.check()?;
    let chosen = choice(&request.snapshot);
    let profile = &request.snapshot.profile;
    let lineage = engine.lineage_to_judge(&chosen.lineage()).await;
    let (tenant, lineage) = lineage.map_err(|failure| told(failure, profile))?;
    let record = engine.resolve_snapshot(&tenant, &lineage, chosen.reference()?).await;
    let record = record.map_err(|failure| told(failure, profile))?;
    let description = show::description(&tenant, &record).await?;
    let docker = Docker::connect(request.docker_host.as_deref()).await?;
    let notes = Notes::of(&engine.settings)?;
    let (told, failed) = docker.settle_left(&notes).await;
    told.iter().for_each(|told| engine.say(told));
    failed.iter().for_each(|failure| engine.warn(&failure.message));
    let suffix = suffix(clock::unix_ms());
    let plan = Plan::of(&docker, request, &description, &record, &suffix).await?;
    let mut outcome = plan.outcome(&description, &record, &lineage.name.to_string());
    outcome.warnings.extend(description.warnings());
    if request.dry_run {
        outcome.elapsed_ms = began.elapsed().as_millis() as u64;
        return Ok(outcome);
    }
    let work = Work {
        engine,
        request,
        tenant: &tenant,
        record: &record,
        docker: &docker,
        notes: &notes,
        plan: &plan,
        description: &description,
    };
    Box::pin(work.run(&mut outcome)).await?;
    outcome.warnings.iter().for_each(|warning| engine.warn(warning));
    outcome.elapsed_ms = began.elapsed().as_millis() as u64;
    Ok(outcome)
}

/// What will be made.
struct Plan {
    container: String,
    repository: String,
    tag: String,
    /// The name at the daemon of each volume.
    volumes: HashMap<String, String>,
    /// The container that is to be replaced, if it is there.
    replaces: Option<crate::docker::Container>,
    aside: String,
    /// The mark of the container and its volumes.
    mark: Mark,
    starts: bool,
}

impl Plan {
    async fn of(
        docker: &Docker,
        request: &ContainerRestoreRequest,
        description: &ContainerDescription,
        record: &Record,
        suffix: &str,
    ) -> Result<Self, Failure> {
        let own = description.name.clone();
        let container = match (&request.container, request.mode) {
            (Some(name), _) => name.clone(),
            (None, RestoreMode::New) => free_container(docker, &own, suffix).await?,
            (None, RestoreMode::Replace) => own,
        };
        let found = there(docker.container(&container).await)?;
        if found.is_some() && request.mode == RestoreMode::New {
            let message = format!("there is a container {container} already");
            return Err(Failure::new(ErrorKind::TargetExists, message).hint(
                "--name gives the new one another name; --replace puts it in the place of the old one",
            ));
        }
        let mut volumes = HashMap::new();
        for name in description.volumes() {
            // What is there may be somebody's: it stays as it is, and the container gets a volume of its own.
            let now = match is_volume(docker, &name).await? {
                true => free_volume(docker, &name, suffix).await?,
                false => name.clone(),
            };
            volumes.insert(name, now);
        }
        let ran = matches!(description.status, Status::Running | Status::Paused);
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        let image: String =
            description.name.to_lowercase().chars().map(|c| if allowed(c) { c } else { '-' }).collect();
        Ok(Self {
            aside: format!("{container}-replaced-{suffix}"),
            mark: Mark::unused(),
            container,
            repository: format!("pstore-restored/{}", image.trim_matches(['-', '_'])),
            tag: record.sha256_prefix(),
            volumes,
            replaces: found,
            starts: request.start.unwrap_or(ran),
        })
    }

    fn outcome(
        &self,
        description: &ContainerDescription,
        record: &Record,
        name: &str,
    ) -> ContainerRestoreOutcome {
        let volumes = description.mounts.iter().filter_map(|mount| {
            let name = mount.name.as_ref()?;
            let volume = self.volumes.get(name)?;
            Some(RestoredVolume {
                name: name.clone(),
                volume: volume.clone(),
                destination: mount.destination.clone(),
                files: 0,
                bytes: 0,
                verified: false,
            })
        });
        ContainerRestoreOutcome {
            outcome: RestoreResult::Planned,
            container: self.container.clone(),
            container_id: None,
            image: format!("{}:{}", self.repository, self.tag),
            started: self.starts,
            health: None,
            name: name.to_owned(),
            snapshot_id: record.content.as_ref().map(|content| content.snapshot_id),
            record: record.record,
            sha256_prefix: record.sha256_prefix(),
            volumes: volumes.collect(),
            set_aside: self.replaces.as_ref().map(|_| self.aside.clone()),
            before: None,
            warnings: Vec::new(),
            elapsed_ms: 0,
        }
    }
}

struct Work<'a> {
    engine: &'a Engine,
    request: &'a ContainerRestoreRequest,
    tenant: &'a TenantStore,
    record: &'a Record,
    docker: &'a Docker,
    notes: &'a Notes,
    plan: &'a Plan,
    description: &'a ContainerDescription,
}

impl Work<'_> {
    async fn run(&self, outcome: &mut ContainerRestoreOutcome) -> Result<(), Failure> {
        let root = self.engine.cache_root.clone().unwrap_or_else(std::env::temp_dir);
        let scratch = Scratch::make(&root, Kind::Import)?;
        let written = scratch.path().join("snapshot");
        let request = store_restore::Request {
            paths: Vec::new(),
            target: written.clone(),
            force: false,
            keeping: Keeping::default(),
            threads: threads(),
            inspector: None,
            // It is for us alone, and goes with us.
            point_of_no_return: PointOfNoReturn::default(),
        };
        store_restore::restore(self.tenant, self.record, &request, self.engine.progress()).await?;
        let pinned = PinnedTree::open(self.tenant, self.record).await?;
        let mut made = Vec::new();
        let working = async {
            // One that is there is another restore's.
            if self.docker.api.inspect_image(&outcome.image).await.is_err() {
                made.push(self.docker.provisional_image(&outcome.image, self.notes)?);
            }
            self.make((&written, scratch.path()), &pinned.tree, &mut made, outcome).await
        };
        let ended = Box::pin(working).await;
        pinned.close().await;
        // Containers go before what they use.
        for provisional in made.into_iter().rev() {
            match &ended {
                Ok(()) => provisional.keep(),
                Err(_) => provisional.undo().await?,
            }
        }
        ended
    }

    async fn make(
        &self,
        (written, scratch): (&Path, &Path),
        tree: &Arc<SnapshotTree>,
        made: &mut Vec<Provisional>,
        outcome: &mut ContainerRestoreOutcome,
    ) -> Result<(), Failure> {
        let name = (self.plan.repository.as_str(), self.plan.tag.as_str());
        let image = image_load::load(self.docker, written, name).await?;
        self.engine.step("the image is loaded");
        if let Some(old) = &self.plan.replaces {
            outcome.before = Some(self.snapshot_of_old(&old.id).await?);
        }
        self.fill_all((written, scratch), (tree, &image), made, outcome).await?;
        if self.plan.replaces.is_none() {
            made.push(self.docker.provisional_container(
                &self.plan.container,
                &self.plan.mark,
                self.notes,
            )?);
        }
        self.container(&image, outcome).await
    }

    /// What the replaced container holds is durable before it is touched.
    async fn snapshot_of_old(&self, id: &str) -> Result<String, Failure> {
        let request = ContainerSnapshotRequest {
            name: Some(self.request.snapshot.profile.clone()),
            docker_host: self.request.docker_host.clone(),
            description: format!("before {} was restored", self.record.sha256_prefix()),
            trigger: Trigger::BeforeRestore,
            actor: self.request.actor.clone(),
            ..ContainerSnapshotRequest::new(id.to_owned())
        };
        let taken = snapshot(self.engine, &request).await?;
        Ok(taken.sha256_prefix.unwrap_or_default())
    }

    async fn fill_all(
        &self,
        (written, scratch): (&Path, &Path),
        (tree, image): (&Arc<SnapshotTree>, &str),
        made: &mut Vec<Provisional>,
        outcome: &mut ContainerRestoreOutcome,
    ) -> Result<(), Failure> {
        let mut filled_already: HashMap<String, RestoredVolume> = HashMap::new();
        for volume in &mut outcome.volumes {
            // A container may have one volume at two places.
            if let Some(filled) = filled_already.get(&volume.volume) {
                let RestoredVolume { files, bytes, verified, .. } = filled.clone();
                (volume.files, volume.bytes, volume.verified) = (files, bytes, verified);
                continue;
            }
            let content = VolumeContent::of(Arc::clone(tree), written, &volume.name).await?;
            made.push(self.docker.provisional_volume(&volume.volume, &self.plan.mark, self.notes)?);
            self.create_volume(&volume.volume).await?;
            let helper = self.docker.helper(image, &volume.volume, self.notes).await?;
            let to_write = content.clone();
            let filled = helper.write(stream_of(move |out| to_write.write(Helper::ROOT, out))).await;
            let read_back = scratch.join(format!("again-{}.tar", made.len()));
            let read = match filled {
                // It holds what was written to it a moment ago.
                Ok(()) => spool(helper.read(), &read_back, (&volume.volume, u64::MAX)).await.map(drop),
                Err(failure) => Err(failure),
            };
            helper.remove().await?;
            read?;
            (volume.files, volume.bytes) = (content.files, content.bytes);
            let name = volume.volume.clone();
            blocking(move || Ok(verify(&name, &read_back, &content))).await??;
            volume.verified = true;
            filled_already.insert(volume.volume.clone(), volume.clone());
            self.engine.step(&format!("the volume {} is filled and verified", volume.volume));
        }
        Ok(())
    }

    async fn create_volume(&self, name: &str) -> Result<(), Failure> {
        let request = VolumeCreateRequest {
            name: Some(name.to_owned()),
            labels: Some(HashMap::from([self.plan.mark.label()])),
            ..Default::default()
        };
        let created = self.docker.api.create_volume(request).await;
        let created = created.map_err(|error| failure(&format!("cannot make the volume {name}"), &error))?;
        // A daemon that has one of this name answers with that.
        match self.plan.mark.is_on(&created.labels) {
            true => Ok(()),
            false => {
                let message = format!("somebody has made a volume {name} meanwhile, which stays as it is");
                Err(Failure::new(ErrorKind::TargetExists, message).hint("run this again"))
            }
        }
    }

    async fn container(&self, image: &str, outcome: &mut ContainerRestoreOutcome) -> Result<(), Failure> {
        let from = format!("{}@{}", outcome.name, outcome.sha256_prefix);
        let body = create::body(
            self.docker,
            self.description,
            (image, [(create::RESTORED_FROM.to_owned(), from), self.plan.mark.label()]),
            &self.plan.volumes,
            &mut outcome.warnings,
        )
        .await?;
        let set_aside = match &self.plan.replaces {
            Some(old) => {
                let how = (self.plan.aside.as_str(), STOP_SECONDS);
                Some(self.docker.set_aside(old, how, &self.plan.mark, self.notes).await?)
            }
            None => None,
        };
        match self.create_and_start(body, outcome).await {
            Ok(()) => {
                outcome.outcome = match set_aside {
                    Some(_) => RestoreResult::Replaced,
                    None => RestoreResult::Created,
                };
                if let Some(set_aside) = set_aside {
                    set_aside.let_go();
                }
                Ok(())
            }
            Err(failure) => {
                if let Some(id) = &outcome.container_id {
                    self.docker.remove_container(id).await?;
                }
                match set_aside {
                    Some(set_aside) => {
                        set_aside.put_back().await?;
                        let container = &self.plan.container;
                        Err(Failure {
                            message: format!("{}; {container} is as it was before", failure.message),
                            ..failure
                        })
                    }
                    None => Err(failure),
                }
            }
        }
    }

    async fn create_and_start(
        &self,
        body: bollard::models::ContainerCreateBody,
        outcome: &mut ContainerRestoreOutcome,
    ) -> Result<(), Failure> {
        let name = &self.plan.container;
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = self.docker.api.create_container(Some(options), body).await;
        let created =
            created.map_err(|error| failure(&format!("cannot make the container {name}"), &error))?;
        outcome.container_id = Some(created.id.clone());
        if !self.plan.starts {
            return Ok(());
        }
        self.docker.start(&created.id, name).await.map_err(|failure| match self.request.mode {
            RestoreMode::New => failure.hint(
                "--no-start makes it without starting it, for example because the old one has its ports",
            ),
            RestoreMode::Replace => failure,
        })?;
        outcome.health = self.healthy(&created.id).await?;
        Ok(())
    }

    /// Waits until a container is healthy, or has run for a moment if nothing checks its health.
    async fn healthy(&self, id: &str) -> Result<Option<String>, Failure> {
        let began = Instant::now();
        let name = &self.plan.container;
        loop {
            let now = self.docker.container(id).await?;
            let failed = |how: String| {
                Failure::new(ErrorKind::Unavailable, format!("the restored {name} {how}"))
                    .hint("--no-start makes it without starting it; `docker logs` of it then tells more")
            };
            match (now.status, now.health.as_deref()) {
                (Status::Exited, _) => {
                    // One whose work is done.
                    let code = now.described.state.and_then(|state| state.exit_code).unwrap_or_default();
                    return match code {
                        0 => Ok(None),
                        code => Err(failed(format!("ended at once, with exit code {code}"))),
                    };
                }
                (_, Some("healthy")) => return Ok(now.health),
                (_, None) if began.elapsed() >= SETTLED => return Ok(None),
                (_, Some(health)) if began.elapsed() >= self.request.health_wait => {
                    let seconds = self.request.health_wait.as_secs();
                    return Err(failed(format!("is {health} after {seconds} s")));
                }
                _ => {}
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                () = self.engine.interrupt.raised() => return Err(Error::Interrupted.into()),
            }
        }
    }
}

/// What was looked for, if it is there.
fn there<T>(looked: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match looked {
        Ok(found) => Ok(Some(found)),
        Err(failure) if failure.kind == ErrorKind::NotFound => Ok(None),
        Err(failure) => Err(failure),
    }
}

async fn is_volume(docker: &Docker, name: &str) -> Result<bool, Failure> {
    let looked = docker.api.inspect_volume(name).await;
    let looked = looked.map_err(|error| failure(&format!("cannot look at the volume {name}"), &error));
    Ok(there(looked)?.is_some())
}

async fn free_volume(docker: &Docker, name: &str, suffix: &str) -> Result<String, Failure> {
    let mut number = 1;
    loop {
        let free = numbered(name, suffix, number);
        if !is_volume(docker, &free).await? {
            return Ok(free);
        }
        number += 1;
    }
}

async fn free_container(docker: &Docker, name: &str, suffix: &str) -> Result<String, Failure> {
    let mut number = 1;
    loop {
        let free = numbered(name, suffix, number);
        if there(docker.container(&free).await)?.is_none() {
            return Ok(free);
        }
        number += 1;
    }
}

/// `name-suffix`, then `name-suffix-2`, `name-suffix-3` and so on.
fn numbered(name: &str, suffix: &str, number: u32) -> String {
    match number {
        1 => format!("{name}-{suffix}"),
        _ => format!("{name}-{suffix}-{number}"),
    }
}

/// The time as a part of names: `20261118T201500`.
fn suffix(unix_ms: u64) -> String {
    time::utc(unix_ms)
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('T'),
            c if c.is_ascii_digit() => Some(c),
            _ => None,
        })
        .collect()
}
