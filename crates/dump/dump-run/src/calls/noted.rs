//! Functions that look at a call of the program, and continue with the function behind.

use super::behind::Behind;

/// A call that is looked at, and what it means.
pub struct NotedCall<T: 'static> {
    pub meaning: T,
    behind: Behind,
}

/// The arguments that are in registers.
pub type RegisterArguments = [usize; 6];

impl<T> NotedCall<T> {
    /// `name` ends with a zero byte.
    pub const fn new(name: &'static str, meaning: T) -> NotedCall<T> {
        NotedCall { meaning, behind: Behind::new(name) }
    }

    /// Returns the function to continue with.
    pub fn find_behind(&self) -> usize {
        self.behind.find()
    }
}

/// Exports a function that lets another one note its call, and continues with the function behind. The other one gets the caller's address,
/// the call and the arguments, and returns the address to continue at.
macro_rules! noted_call {
    ($name:ident: $kind:ty = $meaning:expr, $note:ident) => {
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        #[allow(non_snake_case)]
        pub unsafe extern "C" fn $name() {
            static NOTED_CALL: $crate::calls::noted::NotedCall<$kind> =
                $crate::calls::noted::NotedCall::new(concat!(stringify!($name), "\0"), $meaning);
            // Keeps the arguments, among them the number of registers of a call with floating point, and the stack aligned for the call.
            std::arch::naked_asm!(
                "push rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                "mov rdi, [rsp + 56]",
                "lea rsi, [rip + {call}]",
                "mov rdx, rsp",
                "call {note}",
                "mov r11, rax",
                "pop rdi",
                "pop rsi",
                "pop rdx",
                "pop rcx",
                "pop r8",
                "pop r9",
                "pop rax",
                "jmp r11",
                call = sym NOTED_CALL,
                note = sym $note,
            )
        }
    };
}
