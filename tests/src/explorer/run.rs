//! One run: the processes, polled by hand, and the choices between their steps.

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::FutureExt;
use store::{
    catalog::clock::counted,
    content::{TenantStore, workers::at_once},
    ops::gc,
};
use tokio::{runtime::Runtime, task::unconstrained};

use store::bucket::{Bucket, Key};

use super::{
    choice::Choices,
    gate::Gate,
    machine::{End, Machine, Op, is_write},
    programs::Host,
    scene::{Scene, Stage, stage, with_packs},
    words,
};

/// A process that makes no call is in a pause; this is longer than most.
const PAUSE: Duration = Duration::from_secs(1);
/// More than any run needs that ends.
const MOST_STEPS: usize = 3000;

type Process = Pin<Box<dyn Future<Output = ()>>>;

/// Time stands still in it, but for the pauses that are passed over.
pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

#[derive(Clone, Copy, Debug, Hash)]
struct Left {
    faults: u32,
    expiries: u32,
    crashes: u32,
    preemptions: Option<u32>,
    /// Who made the last step.
    current: Option<usize>,
}

impl Left {
    /// Who made the last step matters only where changes are counted.
    fn that_matters(self) -> Self {
        Self { current: self.current.filter(|_| self.preemptions.is_some()), ..self }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    LetThrough(usize, End),
    Land(usize),
    Expire,
    Crash(usize),
    Stop,
}

/// What went wrong, if anything did.
pub fn run(
    runtime: &Runtime,
    scene: &Scene,
    choices: &mut Choices,
    seen: Option<&mut HashSet<u64>>,
    trace: Option<&mut Vec<String>>,
) -> Option<String> {
    let stage = stage(scene.packs);
    let mut objects = stage.objects.clone();
    if scene.with_pointer {
        objects.extend(stage.pointer.clone());
    }
    if scene.programs.iter().any(|program| matches!(program, super::Program::Twin { .. })) {
        objects.extend(stage.held.0.clone());
    }
    if let Some(packs) = scene.packs {
        objects = with_packs(stage, packs);
    }
    if scene.archives {
        super::archives::of_first(stage, scene.rules, &mut objects);
    }
    // The order of names decides the order of calls, which must be the same again.
    counted::begin();
    at_once::begin();
    let roles = scene.programs.iter().map(|program| program.role()).collect();
    let collects = scene.packs.is_some();
    let machine = Arc::new(Machine::new(roles, &objects, scene.events_wait, collects, trace.is_some()));
    let violation = runtime.block_on(drive(scene, stage, &machine, choices, seen));
    counted::end();
    at_once::end();
    if let Some(trace) = trace {
        *trace = machine.take_trace();
    }
    violation
}

fn processes(scene: &Scene, stage: &Stage, machine: &Arc<Machine>) -> Vec<Option<Process>> {
    let programs = scene.programs.iter().enumerate();
    programs.map(|(process, program)| Some(begin(scene, stage, machine, process, program.clone()))).collect()
}

fn begin(
    scene: &Scene,
    stage: &Stage,
    machine: &Arc<Machine>,
    process: usize,
    program: super::Program,
) -> Process {
    let gate = Gate { process, machine: Arc::clone(machine) };
    let host = Host {
        process,
        machine: Arc::clone(machine),
        store: TenantStore { bucket: Arc::new(gate), ..stage.store.clone() },
        lineage: stage.lineage.clone(),
        records: stage.records.clone(),
        twins: stage.held.1,
        rules: scene.rules,
        ahead_ms: scene.ahead_ms[process % scene.ahead_ms.len()],
    };
    Box::pin(unconstrained(host.run(program)))
}

async fn drive(
    scene: &Scene,
    stage: &Stage,
    machine: &Arc<Machine>,
    choices: &mut Choices,
    mut seen: Option<&mut HashSet<u64>>,
) -> Option<String> {
    let mut processes = processes(scene, stage, machine);
    let bounds = scene.bounds;
    let mut left = Left {
        faults: bounds.faults,
        expiries: bounds.expiries,
        crashes: bounds.crashes,
        preemptions: bounds.preemptions,
        current: None,
    };
    let by_lot = scene.bounds.lots;
    for _ in 0..MOST_STEPS {
        settle(&mut processes, machine).await;
        if let Some(violation) = machine.inner().ghost.violation() {
            return Some(violation);
        }
        let steps = options(scene, machine, left, by_lot);
        if steps.is_empty() {
            return end(scene, stage, machine);
        }
        if let Some(seen) = seen.as_deref_mut()
            && !choices.is_replaying()
            && !scene.events_wait
            && !seen.insert(machine.state(left.that_matters()))
        {
            return None;
        }
        let weights: Vec<u32> = steps.iter().map(|(_, weight)| *weight).collect();
        let (step, _) = steps[choices.choose(&weights)];
        match step {
            Step::LetThrough(index, end) => {
                let process = machine.inner().waiting[index].process;
                let could_go_on = |before: usize| {
                    before != process
                        && machine.inner().waiting.iter().any(|waiting| waiting.process == before)
                };
                if left.current.is_some_and(could_go_on) {
                    left.preemptions = left.preemptions.map(|left| left.saturating_sub(1));
                }
                left.current = Some(process);
                left.faults -= u32::from(end != End::Answered);
                machine.let_through(index, end);
            }
            Step::Land(index) => machine.land(index),
            Step::Expire => {
                left.expiries -= 1;
                machine.expire();
            }
            Step::Crash(process) => {
                left.crashes -= 1;
                machine.crash(process);
                processes[process] = scene.programs[process].resumed().map(|program| {
                    machine.resume(process);
                    begin(scene, stage, machine, process, program)
                });
            }
            Step::Stop => return end(scene, stage, machine),
        }
    }
    Some(format!("no end after {MOST_STEPS} steps"))
}

/// What must hold when everybody has ended or died.
fn end(scene: &Scene, stage: &Stage, machine: &Machine) -> Option<String> {
    let told = machine.inner().ghost.at_the_end(machine.memory(), scene.events_wait);
    if told.is_some() || scene.packs.is_none() {
        return told;
    }
    quiet(stage, machine)
}

/// Two collections with nobody else there leave nothing that is not needed, and lose nothing.
fn quiet(stage: &Stage, machine: &Machine) -> Option<String> {
    let memory = Arc::clone(machine.memory());
    let store = TenantStore { bucket: memory, ..stage.store.clone() };
    for _ in 0..2 {
        machine.expire();
        let collector = gc::Collector::new(store.clone(), gc::Options::after(Duration::ZERO));
        match collector.run().now_or_never() {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Some(format!("a collection with nobody else there fails: {error}")),
            None => return Some("a collection with nobody else there does not end".to_owned()),
        }
    }
    let mut keeper = super::keeper::Keeper::default();
    for key in machine.memory().keys() {
        let object =
            machine.memory().get(&Key::new(key.as_str()).unwrap(), u64::MAX).now_or_never().unwrap().unwrap();
        keeper.sees(&key, Some(&object.bytes));
    }
    let garbage = keeper.garbage();
    match keeper.lost() {
        Some(lost) => Some(format!("two quiet collections lose something: {lost}")),
        None if garbage.is_empty() => None,
        None => Some(format!("two quiet collections leave {garbage:?}, which nothing needs")),
    }
}

/// Polls every process until it waits for a call, or has ended.
async fn settle(processes: &mut [Option<Process>], machine: &Machine) {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        let mut pauses = false;
        for (number, slot) in processes.iter_mut().enumerate() {
            let Some(process) = slot else { continue };
            if process.as_mut().poll(&mut context) == Poll::Ready(()) {
                machine.inner().ended(number);
                *slot = None;
            } else {
                pauses |= !machine.inner().waiting.iter().any(|waiting| waiting.process == number);
            }
        }
        if !pauses {
            return;
        }
        tokio::time::advance(PAUSE).await;
    }
}

/// What can happen next, and how likely each is when it is drawn by lot.
fn options(scene: &Scene, machine: &Machine, left: Left, by_lot: bool) -> Vec<(Step, u32)> {
    let bounds = scene.bounds;
    let inner = machine.inner();
    let mut order: Vec<usize> = (0..scene.programs.len()).collect();
    // Going on comes first, unless early changes are looked for.
    order.sort_by_key(|process| (Some(*process) == left.current) == bounds.changes_first);
    let waits = |process: usize| inner.waiting.iter().any(|waiting| waiting.process == process);
    let bound = left.preemptions == Some(0) && left.current.is_some_and(waits);
    let mut steps = Vec::new();
    let mut faults = Vec::new();
    for process in &order {
        if bound && Some(*process) != left.current {
            continue;
        }
        let calls = inner.waiting.iter().enumerate().filter(|(_, waiting)| waiting.process == *process);
        for (index, waiting) in calls.take(if bounds.reorder { usize::MAX } else { 1 }) {
            let weight = if Some(*process) == left.current { 12 } else { 5 };
            steps.push((Step::LetThrough(index, End::Answered), weight));
            let is_spared =
                |(faulty, key): (usize, &str)| faulty != *process || !words::key(&waiting.op).ends_with(key);
            let spared = bounds.faulty.is_some_and(is_spared);
            let is_sure = matches!(waiting.op, Op::Delete(_)) && !scene.archives;
            if left.faults == 0 || spared || is_sure {
                continue;
            }
            if is_write(&waiting.op) {
                faults.push((Step::LetThrough(index, End::Flying), 2));
                // The same as a landing right away, but likelier when it is drawn by lot.
                if by_lot {
                    faults.push((Step::LetThrough(index, End::Lost), 1));
                }
                if bounds.refused {
                    faults.push((Step::LetThrough(index, End::Refused), 1));
                }
            } else if bounds.failing_reads {
                faults.push((Step::LetThrough(index, End::Flying), 1));
            }
        }
    }
    let (waiting, is_over) = (inner.waiting.len(), inner.waiting.is_empty());
    drop(inner);
    if bounds.faults_first {
        steps.splice(..0, faults);
    } else {
        steps.extend(faults);
    }
    let flying = machine.flying();
    steps.extend((0..flying).map(|index| (Step::Land(index), 2)));
    if is_over {
        if flying > 0 {
            steps.push((Step::Stop, 1));
        }
        return steps;
    }
    if left.expiries > 0 && waiting > 0 && machine.has_fresh_lock() {
        steps.push((Step::Expire, 2));
    }
    if left.crashes > 0 {
        let crashes =
            order.into_iter().filter(|process| machine.inner().waiting.iter().any(|w| w.process == *process));
        steps.extend(crashes.map(|process| (Step::Crash(process), 1)));
    }
    steps
}
