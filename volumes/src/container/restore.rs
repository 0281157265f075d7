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
use engine::{Engine, failure::Failure, threads};
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
    create::{self, NewContainer},
    description::{ContainerDescription, Trigger},
    image_load,
    names::{choice, told},
    restore_outcome::{
        ContainerRestoreOutcome, ContainerRestoreRequest, RestoreMode, RestoreResult, RestoredVolume,
    },
    restore_plan::{Plan, suffix},
    show,
    snapshot::snapshot,
    snapshot_request::ContainerSnapshotRequest,
    verify::verify,
    volume_content::VolumeContent,
};
use crate::docker::{Docker, Helper, Notes, Provisional, SetAside, Status, failure, spool, stream_of};

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
        let _unsettled = self.engine.interrupt.unsettle();
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
        let restored = store_restore::restore(self.tenant, self.record, &request, self.engine.progress());
        self.unless_interrupted(async { Ok(restored.await?) }).await?;
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
        if ended.is_err() {
            // What was cut short has left its notes, such as a container that was set aside.
            let (_, failed) = self.docker.settle_left(self.notes).await;
            failed.iter().for_each(|failure| self.engine.warn(&failure.message));
        }
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
        let image = self.unless_interrupted(image_load::load(self.docker, written, name)).await?;
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
            self.require_uninterrupted()?;
            made.push(self.docker.provisional_volume(&volume.volume, &self.plan.mark, self.notes)?);
            self.create_volume(&volume.volume).await?;
            let helper = self.docker.helper(image, &volume.volume, self.notes).await?;
            let to_write = content.clone();
            let filling = helper.write(stream_of(move |out| to_write.write(Helper::ROOT, out)));
            let filled = self.unless_interrupted(filling).await;
            let read_back = scratch.join(format!("again-{}.tar", made.len()));
            let read = match filled {
                // It holds what was written to it a moment ago.
                Ok(()) => {
                    let reading = spool(helper.read(), &read_back, (&volume.volume, u64::MAX));
                    self.unless_interrupted(reading).await.map(drop)
                }
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
        let new = create::new_container(
            self.docker,
            self.description,
            (image, [(create::RESTORED_FROM.to_owned(), from), self.plan.mark.label()]),
            &self.plan.volumes,
            &mut outcome.warnings,
        )
        .await?;
        self.require_uninterrupted()?;
        let set_aside = match &self.plan.replaces {
            Some(old) => {
                let how = (self.plan.aside.as_str(), STOP_SECONDS);
                Some(self.docker.set_aside(old, how, &self.plan.mark, self.notes).await?)
            }
            None => None,
        };
        match self.create_and_start(new, outcome).await {
            Ok(()) => {
                outcome.outcome = match set_aside {
                    Some(_) => RestoreResult::Replaced,
                    None => RestoreResult::Created,
                };
                if let Some(restarts) = set_aside.and_then(SetAside::let_go) {
                    let aside = &self.plan.aside;
                    outcome.warnings.push(format!(
                        "{aside} does not start by itself any more: `docker update --restart {restarts} {aside}` undoes that"
                    ));
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
        NewContainer { body, more_networks }: NewContainer,
        outcome: &mut ContainerRestoreOutcome,
    ) -> Result<(), Failure> {
        let name = &self.plan.container;
        self.require_uninterrupted()?;
        let options = CreateContainerOptionsBuilder::default().name(name).build();
        let created = self.docker.api.create_container(Some(options), body).await;
        let created =
            created.map_err(|error| failure(&format!("cannot make the container {name}"), &error))?;
        outcome.container_id = Some(created.id.clone());
        for (network, endpoint) in more_networks {
            self.docker.connect_network(&created.id, name, &network, endpoint).await?;
        }
        if !self.plan.starts {
            return Ok(());
        }
        self.require_uninterrupted()?;
        self.docker.start(&created.id, name).await.map_err(|failure| match self.request.mode {
            RestoreMode::New => failure.hint(
                "--no-start makes it without starting it, for example because the old one has its ports",
            ),
            RestoreMode::Replace => failure,
        })?;
        outcome.health = self.healthy(&created.id).await?;
        Ok(())
    }

    /// Fails if somebody wants the restore to end.
    fn require_uninterrupted(&self) -> Result<(), Failure> {
        match self.engine.interrupt.is_raised() {
            true => Err(Error::Interrupted.into()),
            false => Ok(()),
        }
    }

    /// Work that may be dropped at any moment, until somebody wants the restore to end.
    async fn unless_interrupted<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.engine.interrupt.raised() => Err(Error::Interrupted.into()),
        }
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
            self.require_uninterrupted()?;
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
