//! The cells of the clients that speak HTTP/1 and HTTP/2, which agree.

macro_rules! cells_of {
    ($http1:ty, $http2:ty) => {
        #[tokio::test]
        async fn what_never_connects_is_repeated_whatever_it_is() {
            let cell =
                crate::matrix::Cell::behind(crate::server::Door::Shut).because("connect failed");
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_connect_timeout_is_no_more_than_a_refused_connection() {
            let cell =
                crate::matrix::Cell::behind(crate::server::Door::Stuck).because("connect failed");
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_reset_leaves_open_whether_the_work_was_done() {
            let cell =
                crate::matrix::Cell::of(crate::server::Act::Reset).because("connection reset");
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_hang_before_the_head_is_cut_by_the_attempt_timeout() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Hang)
                .ends(crate::matrix::End::Failed(steadfast::ErrorKind::TimedOut))
                .because("attempt timeout");
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_body_that_stalls_is_cut_and_heard_but_not_repeated() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Stall)
                .attempts(1, 1)
                .ends(crate::matrix::End::Cut);
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_503_with_a_hint_is_repeated_whatever_it_is() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Overload)
                .attempts(2, 2)
                .ends(crate::matrix::End::Answer(503))
                .because(503);
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_body_that_breaks_off_is_heard_but_not_repeated() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Break)
                .attempts(1, 1)
                .ends(crate::matrix::End::Broken);
            tokio::join!(cell.holds_for::<$http1>(), cell.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_connection_that_closes_under_a_request_leaves_open_whether_the_work_was_done() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Drain)
                .on_a_used_connection()
                .because("closed before the answer was complete");
            cell.holds_for::<$http1>().await;
        }

        #[tokio::test]
        async fn a_goaway_below_the_request_is_repeated_and_no_evidence() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Drain)
                .attempts(2, 2)
                .because("connection is draining")
                .no_evidence();
            let used = cell.on_a_used_connection();
            tokio::join!(cell.holds_for::<$http2>(), used.holds_for::<$http2>());
        }

        #[tokio::test]
        async fn a_goaway_above_the_request_leaves_open_whether_the_work_was_done() {
            let cell =
                crate::matrix::Cell::of(crate::server::Act::DrainBegun).because("connection reset");
            cell.holds_for::<$http2>().await;
        }

        #[tokio::test]
        async fn a_refused_stream_is_repeated_whatever_it_is() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Refuse)
                .attempts(2, 2)
                .because("stream refused");
            cell.holds_for::<$http2>().await;
        }

        #[tokio::test]
        async fn a_connection_that_dies_in_silence_is_noticed_by_its_keep_alive() {
            let cell = crate::matrix::Cell::of(crate::server::Act::Die).because("timed out");
            cell.holds_for::<$http2>().await;
        }
    };
}

pub(crate) use cells_of;
