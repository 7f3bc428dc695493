//! Both ends of the control socket.

mod served;
