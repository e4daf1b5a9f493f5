//! Somebody who steers breakers and looks at them while calls run.

use std::sync::Arc;

use steadfast::BreakerState;
use tokio::time::{Instant, sleep, timeout};

use crate::chance::millis;
use crate::clients::Client;

/// Until then; no breaker is left forced open or disabled.
pub async fn operate(clients: Arc<[Arc<Client>]>, until: Instant) {
    while Instant::now() < until {
        sleep(millis(5..100)).await;
        let client = &clients[rand::random_range(0..clients.len())];
        let _ = (client.look)();
        let Some(handles) = &client.handles else {
            continue;
        };
        let breaker = &handles.breaker;
        match rand::random_range(0..8) {
            0 => {
                breaker.force_open("drill");
                sleep(millis(0..80)).await;
                breaker.reset();
            }
            1 => {
                breaker.disable();
                sleep(millis(0..80)).await;
                breaker.reset();
            }
            2 => breaker.reset(),
            3 => drop(timeout(millis(1..50), breaker.watch().changed()).await),
            _ => (handles.reconfigure)(),
        }
        let state = breaker.state();
        assert!(!matches!(
            state,
            BreakerState::ForcedOpen | BreakerState::Disabled
        ));
    }
}
