use std::time::Duration;

use super::*;

const LINE: usize = 7;
const OTHER: usize = 8;
const SECOND: Duration = Duration::from_secs(1);

/// A queue of `calls` parked calls of one line, which came a second apart and
/// are woken by their number, and the instant after the last.
fn parked(calls: u64) -> (Queue<u64>, Instant) {
    let mut queue = Queue::new();
    let mut now = Instant::now();
    for _ in 0..calls {
        park(&mut queue, LINE, now);
        now += SECOND;
    }
    (queue, now)
}

fn park(queue: &mut Queue<u64>, line: usize, now: Instant) -> u64 {
    let number = queue.number();
    queue.park(line, number, number, now);
    queue.arrived(line, now);
    number
}

fn turn(queue: &mut Queue<u64>, number: u64, look: Look, now: Instant) -> (Turn, Option<u64>) {
    let due = now;
    let (turn, wakes) = queue.turn(LINE, number, &number, (look, due), now);
    assert_eq!(wakes.released, None, "a call does not wake itself");
    (turn, wakes.first)
}

fn woken(Wakes { released, first }: Wakes<u64>) -> (Option<u64>, Option<u64>) {
    (released, first)
}

#[test]
fn the_first_in_line_comes_when_it_is_due_and_the_next_is_told_to_watch() {
    let (mut queue, now) = parked(3);
    let due = now + SECOND;
    let mut ask = |number, look, at| {
        let (turn, wakes) = queue.turn(LINE, number, &number, (look, due), at);
        (turn, wakes.first)
    };
    assert_eq!(ask(1, Look::Probes, due), (Turn::Behind, None));
    assert_eq!(ask(0, Look::Probes, now), (Turn::First(due), None));
    assert_eq!(ask(0, Look::Shut, due), (Turn::First(due), None));
    assert_eq!(ask(0, Look::Probes, due), (Turn::Come, Some(1)));
    assert_eq!(ask(1, Look::Probes, due), (Turn::Come, Some(2)));
    assert_eq!(ask(2, Look::Probes, due), (Turn::Come, None));
    assert!(queue.lines.is_empty(), "an empty line is forgotten");
}

#[test]
fn once_calls_pass_they_come_one_gap_apart() {
    let (mut queue, now) = parked(3);
    let now = now + 60 * SECOND;
    assert_eq!(turn(&mut queue, 0, Look::Passes, now).0, Turn::Come);
    let next = now + SECOND;
    assert_eq!(
        turn(&mut queue, 1, Look::Passes, now),
        (Turn::First(next), None)
    );
    assert_eq!(turn(&mut queue, 1, Look::Passes, next).0, Turn::Come);
}

#[test]
fn a_new_call_that_was_admitted_lets_one_follow() {
    let (mut queue, now) = parked(3);
    queue.arrived(LINE, now);
    assert_eq!(woken(queue.follow(LINE, Look::Shut, now)), (None, None));
    assert_eq!(woken(queue.follow(LINE, Look::Probes, now)), (None, None));
    assert_eq!(
        woken(queue.follow(LINE, Look::Passes, now)),
        (Some(0), Some(1))
    );
    assert_eq!(turn(&mut queue, 0, Look::Shut, now), (Turn::Come, None));
    assert_eq!(woken(queue.follow(OTHER, Look::Passes, now)), (None, None));
}

#[test]
fn a_new_call_is_not_followed_a_moment_after_one_that_came_by_itself() {
    let (mut queue, now) = parked(4);
    let now = now + 60 * SECOND;
    assert_eq!(turn(&mut queue, 0, Look::Passes, now).0, Turn::Come);
    assert_eq!(woken(queue.follow(LINE, Look::Passes, now)), (None, None));
    let later = now + SECOND;
    let followed = woken(queue.follow(LINE, Look::Passes, later));
    assert_eq!(followed, (Some(1), Some(2)));
}

#[test]
fn one_that_is_refused_again_stands_before_those_that_came_later() {
    let (mut queue, now) = parked(3);
    assert_eq!(turn(&mut queue, 0, Look::Probes, now).0, Turn::Come);
    queue.park(LINE, 0, 0, now);
    assert_eq!(
        turn(&mut queue, 1, Look::Probes, now),
        (Turn::Behind, None),
        "no longer the first"
    );
    assert_eq!(turn(&mut queue, 0, Look::Probes, now).0, Turn::Come);
}

#[test]
fn one_that_leaves_frees_its_place_and_wakes_whom_it_kept_waiting() {
    let (mut queue, now) = parked(3);
    assert_eq!(
        woken(queue.leave(LINE, 1, now)),
        (None, None),
        "not the first"
    );
    assert_eq!(woken(queue.leave(LINE, 0, now)), (None, Some(2)));
    assert_eq!(woken(queue.leave(LINE, 2, now)), (None, None));
    assert!(queue.lines.is_empty());
}

#[test]
fn one_that_leaves_without_taking_its_turn_passes_it_on() {
    let (mut queue, now) = parked(3);
    let released = woken(queue.follow(LINE, Look::Passes, now));
    assert_eq!(released, (Some(0), Some(1)));
    assert_eq!(woken(queue.leave(LINE, 0, now)), (Some(1), Some(2)));
}

#[test]
fn one_breakers_line_does_not_hold_up_anothers() {
    let (mut queue, now) = parked(2);
    let other = park(&mut queue, OTHER, now);
    let asked = queue.turn(OTHER, other, &other, (Look::Probes, now), now);
    assert_eq!(asked.0, Turn::Come);
}

#[test]
fn the_waker_that_was_asked_with_last_is_the_one_that_is_used() {
    let (mut queue, now) = parked(1);
    let asked = queue.turn(LINE, 0, &42, (Look::Shut, now + SECOND), now);
    assert_eq!(asked.0, Turn::First(now + SECOND));
    assert_eq!(
        woken(queue.follow(LINE, Look::Passes, now)),
        (Some(42), None)
    );
}
