//! `run` polls the processes of one run by hand, and makes the choices between their steps.

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
    call::Op,
    choice::Choices,
    gate::Gate,
    host::Host,
    machine::{End, Machine, is_write},
    program::Program,
    scenario::{Scenario, Stage, stage, with_packs},
    trace,
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
    /// The process of the last step.
    current: Option<usize>,
}

impl Left {
    /// The process of the last step matters only where changes are counted.
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

/// Runs a scenario; returns the failure, if there was one.
pub fn run(
    runtime: &Runtime,
    scenario: &Scenario,
    choices: &mut Choices,
    seen: Option<&mut HashSet<u64>>,
    trace: Option<&mut Vec<String>>,
) -> Option<String> {
    let stage = stage(scenario.packs);
    let mut objects = stage.objects.clone();
    if scenario.with_pointer {
        objects.extend(stage.pointer.clone());
    }
    if scenario.programs.iter().any(|program| matches!(program, Program::Twin { .. })) {
        objects.extend(stage.held.0.clone());
    }
    if let Some(packs) = scenario.packs {
        objects = with_packs(stage, packs);
    }
    if scenario.archives {
        super::archives::of_first(stage, scenario.rules, &mut objects);
    }
    // The order of names decides the order of calls, which must be the same again.
    counted::begin();
    at_once::begin();
    let roles = scenario.programs.iter().map(|program| program.role()).collect();
    let collects = scenario.packs.is_some();
    let machine = Arc::new(Machine::new(roles, &objects, scenario.events_wait, collects, trace.is_some()));
    let violation = runtime.block_on(drive(scenario, stage, &machine, choices, seen));
    counted::end();
    at_once::end();
    if let Some(trace) = trace {
        *trace = machine.take_trace();
    }
    violation
}

fn processes(scenario: &Scenario, stage: &Stage, machine: &Arc<Machine>) -> Vec<Option<Process>> {
    let programs = scenario.programs.iter().enumerate();
    programs
        .map(|(process, program)| Some(begin(scenario, stage, machine, process, program.clone())))
        .collect()
}

fn begin(
    scenario: &Scenario,
    stage: &Stage,
    machine: &Arc<Machine>,
    process: usize,
    program: Program,
) -> Process {
    let gate = Gate { process, machine: Arc::clone(machine) };
    let host = Host {
        process,
        machine: Arc::clone(machine),
        store: TenantStore { bucket: Arc::new(gate), ..stage.store.clone() },
        lineage: stage.lineage.clone(),
        records: stage.records.clone(),
        twins: stage.held.1,
        rules: scenario.rules,
        ahead_ms: scenario.ahead_ms[process % scenario.ahead_ms.len()],
    };
    Box::pin(unconstrained(host.run(program)))
}

async fn drive(
    scenario: &Scenario,
    stage: &Stage,
    machine: &Arc<Machine>,
    choices: &mut Choices,
    mut seen: Option<&mut HashSet<u64>>,
) -> Option<String> {
    let mut processes = processes(scenario, stage, machine);
    let bounds = scenario.bounds;
    let mut left = Left {
        faults: bounds.faults,
        expiries: bounds.expiries,
        crashes: bounds.crashes,
        preemptions: bounds.preemptions,
        current: None,
    };
    let by_lot = scenario.bounds.lots;
    for _ in 0..MOST_STEPS {
        settle(&mut processes, machine).await;
        if let Some(violation) = machine.inner().oracle.violation() {
            return Some(violation);
        }
        let steps = options(scenario, machine, left, by_lot);
        if steps.is_empty() {
            return end(scenario, stage, machine);
        }
        if let Some(seen) = seen.as_deref_mut()
            && !choices.is_replaying()
            && !scenario.events_wait
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
                processes[process] = scenario.programs[process].resumed().map(|program| {
                    machine.resume(process);
                    begin(scenario, stage, machine, process, program)
                });
            }
            Step::Stop => return end(scenario, stage, machine),
        }
    }
    Some(format!("no end after {MOST_STEPS} steps"))
}

/// The invariants when every process has ended or died.
fn end(scenario: &Scenario, stage: &Stage, machine: &Machine) -> Option<String> {
    let told = machine.inner().oracle.at_the_end(machine.memory(), scenario.events_wait);
    if told.is_some() || scenario.packs.is_none() {
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
    let mut pack_oracle = super::pack_oracle::PackOracle::default();
    for key in machine.memory().keys() {
        let object =
            machine.memory().get(&Key::new(key.as_str()).unwrap(), u64::MAX).now_or_never().unwrap().unwrap();
        pack_oracle.sees(&key, Some(&object.bytes));
    }
    let garbage = pack_oracle.garbage();
    match pack_oracle.lost() {
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

/// The next possible steps, each with its weight when it is drawn by lot.
fn options(scenario: &Scenario, machine: &Machine, left: Left, by_lot: bool) -> Vec<(Step, u32)> {
    let bounds = scenario.bounds;
    let inner = machine.inner();
    let mut order: Vec<usize> = (0..scenario.programs.len()).collect();
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
                |(faulty, key): (usize, &str)| faulty != *process || !trace::key(&waiting.op).ends_with(key);
            let spared = bounds.faulty.is_some_and(is_spared);
            let is_sure = matches!(waiting.op, Op::Delete(_)) && !scenario.archives;
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
