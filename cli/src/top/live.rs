//! `live` draws frame after frame, and takes keys, until somebody leaves or the host wants the program to end.

use std::time::Duration;

use crossterm::event::{Event, EventStream};
use engine::{
    failure::Failure,
    host::signals,
    verbs::top::{TopOutcome, TopView},
};
use futures::StreamExt;
use serde_json::Value;
use store::catalog::clock;
use tokio::sync::mpsc::{Receiver, channel};

use super::{
    draw::draw,
    screen::{Screen, unusable},
    state::{Pressed, State},
};
use crate::answer::Answer;

/// How often a frame is drawn though nothing is new: times go on.
const TICK: Duration = Duration::from_secs(1);

/// Watches with a look every so often.
pub(crate) async fn watch(view: TopView, every: Duration) -> Result<Answer, Failure> {
    let mut end = std::pin::pin!(signals::told_to_end());
    let mut looks = looks(view, every);
    let mut screen = Screen::open()?;
    let (mut events, mut tick) = (EventStream::new(), tokio::time::interval(TICK));
    let mut state = State::default();
    loop {
        screen.draw(|frame| draw(frame, &mut state, clock::unix_ms()))?;
        tokio::select! {
            event = events.next() => match event {
                Some(Ok(Event::Key(key))) if state.press(key) == Pressed::Leaves => break,
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(unusable(&error)),
                None => break,
            },
            look = looks.recv() => match look {
                Some(seen) => state.seen = Some(seen),
                None => return Err(Failure::internal("the looks have ended early")),
            },
            _ = tick.tick() => {}
            () = &mut end => break,
        }
    }
    Ok(Answer::new(Value::Null, String::new()))
}

/// Looks again and again, beside the frames: a source that is slow keeps no key waiting.
fn looks(mut view: TopView, every: Duration) -> Receiver<TopOutcome> {
    let (sender, receiver) = channel(1);
    tokio::spawn(async move {
        while sender.send(view.look().await).await.is_ok() {
            tokio::select! {
                () = tokio::time::sleep(every) => {}
                () = sender.closed() => return,
            }
        }
    });
    receiver
}
