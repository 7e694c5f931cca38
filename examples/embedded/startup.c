/* examples/embedded/startup.c: from reset to main on a Cortex-M4, with C's standard streams over semihosting.
 * Part of fxcc, under the Apache License v2.0 with LLVM Exceptions. See LICENSE. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* From the linker script. */
extern uint32_t stack_top[];
extern char data_start[], data_end[], data_load[], bss_start[], bss_end[];

extern void initialise_monitor_handles(void); /* newlib's librdimon */
extern int main(void);

void reset(void);
void fault(void);

/* Faults end the program: a crash must not look like success. */
void fault(void)
{
    _Exit(1);
}

void reset(void)
{
    volatile uint32_t *const cpacr = (volatile uint32_t *)0xE000ED88;

    *cpacr |= 0xFu << 20; /* let the floating-point unit be used */
    __asm__ volatile("dsb\n\tisb" ::: "memory");
    memcpy(data_start, data_load, (size_t)(data_end - data_start));
    memset(bss_start, 0, (size_t)(bss_end - bss_start));
    initialise_monitor_handles();
    exit(main());
}

/* The stack pointer, reset, then the system exceptions. */
__attribute__((section(".vectors"), used)) static void *const vectors[16] = {
    stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault, 0,
    0, 0, 0, (void *)fault, (void *)fault, 0, (void *)fault, (void *)fault};
