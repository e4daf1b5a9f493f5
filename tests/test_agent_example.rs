//! The figures of the `agent` example keep their bands, and are the same for
//! the same seed.

#![allow(
    clippy::unwrap_used,
    reason = "a test that unwraps in vain should fail"
)]

#[path = "../examples/agent.rs"]
#[expect(dead_code, reason = "the program's own door is not used from here")]
mod agent;

use agent::{Arrangement, CEILING, SESSIONS, TURNS, measure, table};

#[test]
fn retries_and_breaker_belong_into_the_tool() {
    let figures = measure(42).unwrap();
    let of = |wanted| {
        let mut all = figures.iter();
        *all.find(|figures| figures.arrangement == wanted).unwrap()
    };
    let alone = of(Arrangement::Alone);
    assert_eq!(alone.sends, SESSIONS * TURNS * 3);
    let each = of(Arrangement::BreakerPerSession);
    assert!(each.sends >= SESSIONS * 5, "{each:?}");
    let capped = of(Arrangement::Capped);
    assert_eq!(capped.sends, SESSIONS * u64::from(CEILING));
    let shared = of(Arrangement::SharedBreaker);
    assert!((5..=40).contains(&shared.sends), "{shared:?}");
    assert_eq!(shared.calls, SESSIONS * TURNS, "it goes on asking");
    let tool = of(Arrangement::InTheTool);
    assert!((5..=40).contains(&tool.sends), "{tool:?}");
    assert_eq!((tool.calls, tool.told), (SESSIONS, SESSIONS));

    for figures in &figures {
        let (sends, _) = figures.arrangement.most();
        assert!(figures.sends <= sends && figures.sends >= figures.arrangement.least());
    }
    assert_eq!(figures, measure(42).unwrap(), "the same seed");
    assert!(
        table(&figures)
            .lines()
            .all(|line| line.chars().count() <= 100)
    );
}
